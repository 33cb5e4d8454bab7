"""PACT's Figs. 6 to 9: what schedules cost beside the optimum, StaticLearn and OneSwitch, γ_ℓ and biased predictions.

The reference scenario of Section VI-B: L on the gold nodes, M (half of the parameters removed) on silver ones for 0.8
of the time and 0.5 of the energy of an epoch, S (three quarters removed) on bronze ones for 0.5 and 0.2, and 1,000
units of time. The paper does not print its loss curves. Here the loss of L falls by a power law, as the paper says all
do, an epoch of M and S teaches 0.8 and 0.5 of that, and a switch lifts the loss. Predictions are off by a few per cent
in each epoch, at random by a seed; the robust ones are the 0.95 quantile.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from palmette.errors import Infeasible
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.strategy import PlanRequest
from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.simulation import initial_state
from palmette.reproduce.progress import Progress, Record, silent
from palmette.spec.goal import Goal
from palmette.spec.problem import Change, Problem, Run, Start

STRATEGIES = ("pact-optimum", "pact", "static-learn", "one-switch")
TARGETS = (0.15, 0.2, 0.3, 0.4, 0.45)
LOW, SEVERAL = 0.15, (0.15, 0.3, 0.45)
LOSS_STEP, LOSS_STEPS = 0.001, (0.001, 0.003, 0.01)
BIASES = (-0.1, -0.05, 0.0, 0.05, 0.1)
START_LOSS, FIRST_FALL, KNEE, EPOCHS = 2.3, 0.2, 8.0, 300
LEARNING = {"L": 1.0, "M": 0.8, "S": 0.5}
NODES = {"L": "gold", "M": "silver", "S": "bronze"}
EPOCH_S = {"L": 1.0, "M": 0.8, "S": 0.5}
EPOCH_J = {"L": 1.0, "M": 0.5, "S": 0.2}
SWITCH_S, SWITCH_J, SWITCH_LOSS = 0.5, 0.1, 0.05
NOISE, QUANTILE = 0.02, 1.645


def scenario(target: float, *, loss_step: float = LOSS_STEP, bias: float = 0.0, seed: int = 0) -> Problem:
    """The reference scenario; ``bias`` is added to the predicted falls of L's loss, relative to them."""
    draw = Random(seed)  # noqa: S311 -- not for secrets
    falls = [-FIRST_FALL / (1 + k / KNEE) for k in range(EPOCHS)]
    run = []
    for model, learning in LEARNING.items():
        true = [learning * fall for fall in falls]
        off = 1 + bias if model == "L" else 1.0
        expected = [off * fall * (1 + draw.gauss(0, NOISE)) for fall in true]
        run.append(
            Run(
                model=model,
                nodes=NODES[model],
                time_s=EPOCH_S[model],
                energy_j=EPOCH_J[model],
                loss_expected=tuple(expected),
                loss_robust=tuple(fall * (1 - QUANTILE * NOISE) for fall in expected),
                loss_true=tuple(true),
            )
        )
    return Problem(
        models=tuple(NODES),
        node_sets=tuple(NODES.values()),
        start=Start(model="L", nodes="gold", loss=START_LOSS),
        target_loss=target,
        deadline_s=1000.0,
        loss_step=loss_step,
        time_step_s=0.1,
        run=tuple(run),
        change=tuple(_switch(here, there) for here, there in (("L", "M"), ("M", "S"), ("L", "S"))),
    )


def _switch(here: str, there: str) -> Change:
    return Change.model_validate(
        {
            "from": (here, NODES[here]),
            "to": (there, NODES[there]),
            "time_s": SWITCH_S,
            "energy_j": SWITCH_J,
            "loss_expected": SWITCH_LOSS,
            "loss_robust": SWITCH_LOSS * (1 + QUANTILE * NOISE),
        }
    )


def schedules(progress: Progress = silent) -> Record:
    """Figs. 6 to 9 as series over the target, with the trajectory of loss and energy at the lowest."""
    progress("Figs. 6 and 7")
    rivals = {name: [planned(name, scenario(target)) for target in TARGETS] for name in STRATEGIES}
    progress("Fig. 8")
    steps = {
        f"γ = {step:g}": [planned("pact", scenario(target, loss_step=step)) for target in TARGETS]
        for step in LOSS_STEPS
    }
    progress("Fig. 9")
    biases = {
        f"bias {bias:+.0%}": [planned("pact", scenario(target, bias=bias)) for target in TARGETS] for bias in BIASES
    }
    return {
        "6": _figure("energy by strategy", rivals),
        "7": {"title": "energy by model", "targets": {f"{target:g}": _by_model(rivals, target) for target in SEVERAL}},
        "8": _figure("energy by the resolution of the loss", steps | {"static-learn": rivals["static-learn"]}),
        "9": _figure("energy by the bias of L's predictions", biases | {"static-learn": rivals["static-learn"]}),
    }


def planned(strategy: str, problem: Problem) -> Record | None:
    """What a strategy decides, with the trajectory of loss and energy; None where it finds no schedule."""
    goal = Goal(weights={"energy": 1.0})
    try:
        decision = make_plan(configured(strategy, {"problem": problem}), PlanRequest(goal=goal)).decision
    except Infeasible:
        return None
    return decision | {"course": _trajectory(problem, decision["schedule"])}


def _trajectory(problem: Problem, schedule: Sequence[Record]) -> list[Record]:
    """Time, loss and energy after every epoch."""
    actions, state = actions_of(problem), initial_state(problem)
    trajectory = []
    for stage in schedule:
        for _ in range(stage["epochs"]):
            pair = actions.pairs.index((stage["model"], stage["nodes"]))
            state = state.after(
                actions, next(action for action in actions.outgoing[state.pair] if actions.to_pair[action] == pair)
            )
            trajectory.append({"time_s": state.time_s, "loss": state.loss, "energy_j": state.energy_j})
    return trajectory


def _figure(title: str, plans: dict[str, list[Record | None]]) -> Record:
    return {
        "title": title,
        "x": list(TARGETS),
        "x_label": "target of the loss",
        "y_label": "joules of the training",
        "series": {name: [plan and plan["energy_j"] for plan in row] for name, row in plans.items()},
        "at_lowest": {name: row[TARGETS.index(LOW)] for name, row in plans.items()},
    }


def _by_model(plans: dict[str, list[Record | None]], target: float) -> dict[str, dict[str, float] | None]:
    """Joules that each strategy spends with each model; a switch counts for the new one."""
    return {name: _spent(row[TARGETS.index(target)]) for name, row in plans.items()}


def _spent(plan: Record | None) -> dict[str, float] | None:
    if plan is None:
        return None
    spent = dict.fromkeys(NODES, 0.0)
    for k, stage in enumerate(plan["schedule"]):
        switched = k > 0 or stage["model"] != "L"
        spent[stage["model"]] += stage["epochs"] * EPOCH_J[stage["model"]] + switched * SWITCH_J
    return spent
