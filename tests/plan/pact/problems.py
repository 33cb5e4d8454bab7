"""Random problems for PACT, small ones for brute force and large ones for speed."""

from __future__ import annotations

from random import Random
from typing import Any

from palmette.spec.files import validated
from palmette.spec.problem import Problem

Plain = dict[str, Any]


def random_problem(
    seed: int,
    *,
    back: bool = False,
    exact: bool = True,
    models: int = 3,
    node_sets: int = 2,
    epochs: int = 6,
    deadline_s: float | None = None,
    spread: float = 0.1,
) -> Plain:
    """A problem with all values on the graph if ``exact``; ``back`` allows changes to larger models too.

    Larger models learn more an epoch and cost more. The target is what some schedule could just about reach.
    """
    draw = Random(seed)
    names, sets = [f"M{k}" for k in range(models)], [f"N{k}" for k in range(node_sets)]
    run = [
        _run(draw, (model, nodes), k, exact, spread)
        for k, model in enumerate(names)
        for nodes in sets
        if draw.random() < 0.8
    ]
    run = run or [_run(draw, (names[0], sets[0]), 0, exact, spread)]
    pairs = [(entry["model"], entry["nodes"]) for entry in run]
    change = [
        _change(draw, here, there, exact, spread)
        for here in pairs
        for there in pairs
        if here != there and (back or pairs.index(there) > pairs.index(here)) and draw.random() < 0.8
    ]
    change.sort(key=lambda entry: (entry["from"], entry["to"]))
    loss = draw.choice([1.0, 1.5, 2.0])
    return {
        "format": "palmette.pact/1",
        "models": names,
        "node_sets": sets,
        "start": {"model": pairs[0][0], "nodes": pairs[0][1], "loss": loss},
        "target_loss": round(loss - draw.uniform(0.15, 0.6) * epochs / 3, 1)
        if exact
        else loss - draw.uniform(0.15, 0.6) * epochs / 3,
        "deadline_s": float(draw.randint(epochs, 2 * epochs)) if deadline_s is None else deadline_s,
        "loss_step": 0.1 if exact else 0.01,
        "time_step_s": 1.0 if exact else 0.1,
        "run": run,
        "change": change,
    }


def _run(draw: Random, pair: tuple[str, str], size: int, exact: bool, spread: float) -> Plain:
    many = draw.randint(1, 4)
    true = [-draw.uniform(0.05, 0.6) / (1 + 0.3 * size) for _ in range(many)]
    if exact:
        true = [round(each, 1) for each in true]
    return {
        "model": pair[0],
        "nodes": pair[1],
        "time_s": float(draw.randint(1, 3)) if exact else draw.uniform(0.5, 2.0),
        "energy_j": draw.uniform(0.5, 4.0) / (1 + size),
        **_estimates(draw, true, exact, spread),
    }


def _change(draw: Random, here: tuple[str, str], there: tuple[str, str], exact: bool, spread: float) -> Plain:
    true = draw.uniform(0.0, 0.2)
    lists = _estimates(draw, [round(true, 1) if exact else true], exact, spread)
    return {
        "from": list(here),
        "to": list(there),
        "time_s": float(draw.randint(0, 1)) if exact else draw.uniform(0.0, 0.5),
        "energy_j": draw.uniform(0.0, 0.5),
        **{key: values[0] for key, values in lists.items()},
    }


def _estimates(draw: Random, true: list[float], exact: bool, spread: float) -> dict[str, list[float]]:
    if exact:
        return {"loss_expected": true, "loss_robust": list(true)}
    expected = [each + draw.gauss(0, spread / 2) * abs(each) for each in true]
    robust = [each + spread * abs(each) for each in expected]
    return {"loss_expected": expected, "loss_robust": robust, "loss_true": true}


def loaded(plain: Plain) -> Problem:
    """The problem as the planners take it."""
    return validated(Problem, plain)
