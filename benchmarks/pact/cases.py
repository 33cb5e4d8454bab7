"""Problems as trainings make them: larger models learn more an epoch and cost more, and every epoch teaches less."""

from __future__ import annotations

from itertools import accumulate
from random import Random
from typing import Any

from palmette.spec.files import validated
from palmette.spec.problem import Problem

MODELS = ("L", "M", "S")
NODES = ("gold", "silver", "bronze")
START_LOSS = 2.3
EPOCHS = 300


def training(
    seed: int,
    *,
    back: bool = False,
    noise: float = 0.1,
    alike: bool = False,
    chain: bool = False,
    target: float | None = None,
    deadline_s: float | None = None,
    loss_step: float = 0.01,
    time_step_s: float = 0.1,
) -> Problem:
    """A random problem of three models on three sets of nodes.

    ``noise`` is the standard deviation of an estimate about the truth, relative to it; the robust estimate is the
    0.95 quantile. Errors are independent, or ``alike`` in all epochs of a pair. ``back`` allows changes to larger
    models too. A ``chain`` has each model on one set of nodes alone, as in the paper.
    """
    draw = Random(seed)
    pairs = [
        (m, n) for m in range(3) for n in range(3) if (m == n if chain else (m, n) == (0, 0) or draw.random() < 0.7)
    ]
    first, knee = draw.uniform(0.15, 0.35), draw.uniform(4.0, 12.0)
    falls = [-first / (1 + k / knee) for k in range(EPOCHS)]
    run = [_run(draw, pair, falls, noise, alike) for pair in pairs]
    change = [
        _change(draw, here, there, noise)
        for here in pairs
        for there in pairs
        if here != there and (back or there[0] >= here[0])
    ]
    wanted = draw.uniform(0.15, 0.6) if target is None else target
    losses = accumulate(falls, initial=START_LOSS)
    alone_s = next((k for k, loss in enumerate(losses) if loss <= wanted), EPOCHS) * run[0]["time_s"]
    plain = {
        "format": "palmette.pact/1",
        "models": MODELS,
        "node_sets": NODES,
        "start": {"model": "L", "nodes": "gold", "loss": START_LOSS},
        "target_loss": wanted,
        "deadline_s": alone_s * draw.uniform(1.2, 4.0) if deadline_s is None else deadline_s,
        "loss_step": loss_step,
        "time_step_s": time_step_s,
        "run": run,
        "change": change,
    }
    return validated(Problem, plain)


def _run(draw: Random, pair: tuple[int, int], falls: list[float], noise: float, alike: bool) -> dict[str, Any]:
    model, nodes = pair
    slower = (1.0, draw.uniform(0.7, 0.9), draw.uniform(0.4, 0.65))[model] * (1.0, 0.97, 0.94)[nodes]
    true = [slower * fall for fall in falls]
    return {
        "model": MODELS[model],
        "nodes": NODES[nodes],
        "time_s": (1.0, 0.8, 0.5)[model] * draw.uniform(0.8, 1.2) * (1.0, 1.2, 1.5)[nodes],
        "energy_j": (1.0, 0.5, 0.2)[model] * draw.uniform(0.7, 1.3) * (1.0, 0.8, 0.6)[nodes],
        **_estimates(draw, true, noise, alike),
    }


def _change(draw: Random, here: tuple[int, int], there: tuple[int, int], noise: float) -> dict[str, Any]:
    true = draw.uniform(0.02, 0.08) * abs(there[0] - here[0]) + draw.uniform(0.0, 0.03)
    lists = _estimates(draw, [true], noise, alike=True)
    return {
        "from": [MODELS[here[0]], NODES[here[1]]],
        "to": [MODELS[there[0]], NODES[there[1]]],
        "time_s": draw.uniform(0.1, 1.0),
        "energy_j": draw.uniform(0.05, 0.3),
        **{key: values[0] for key, values in lists.items()},
    }


def _estimates(draw: Random, true: list[float], noise: float, alike: bool) -> dict[str, list[float]]:
    errors = [draw.gauss(0, noise)] * len(true) if alike else [draw.gauss(0, noise) for _ in true]
    expected = [each * (1 + error) for each, error in zip(true, errors, strict=True)]
    robust = [mean + 1.645 * noise * abs(mean) for mean in expected]
    return {"loss_expected": expected, "loss_robust": robust, "loss_true": true}
