"""How long a plan takes, how that grows with finer resolutions, and how much longer the full graph takes."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from random import Random
from typing import Any

import palmette as pt
from benchmarks.pact.cases import MODELS, NODES
from benchmarks.pact.full_graph import planned_j, vertices
from palmette.plan.pact.action_selection import ActionSelector
from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.expanded_graph import build_graph
from palmette.plan.pact.simulation import initial_state
from palmette.spec.files import validated
from palmette.spec.problem import Problem

Record = dict[str, Any]


def nine_pairs(
    *, loss_step: float = 0.01, time_step_s: float = 1.0, deadline_s: float = 1000.0, epochs: int = 1000,
    start: float = 2.3, target: float = 0.15,
) -> Problem:  # fmt: skip
    """Three models on three sets of nodes, every change allowed, a loss for each of 1,000 epochs."""
    draw = Random(0)
    run, pairs = [], [(m, n) for m in range(3) for n in range(3)]
    for m, n in pairs:
        true = [-(0.12 * 0.95**k + 0.011) * (1 - 0.2 * m) * (1 - 0.1 * n) for k in range(epochs)]
        expected = [fall * (1 + draw.gauss(0, 0.03)) for fall in true]
        run.append(
            {
                "model": MODELS[m],
                "nodes": NODES[n],
                "time_s": (1.0, 0.8, 0.5)[m] * (1.0, 1.1, 1.2)[n],
                "energy_j": (1.0, 0.5, 0.2)[m] * (1.0, 0.7, 0.5)[n],
                "loss_expected": expected,
                "loss_robust": [0.95 * fall for fall in expected],
                "loss_true": true,
            }
        )
    change = [
        {
            "from": [MODELS[a[0]], NODES[a[1]]],
            "to": [MODELS[b[0]], NODES[b[1]]],
            "time_s": 0.5,
            "energy_j": 0.1,
            "loss_expected": 0.03,
            "loss_robust": 0.05,
        }
        for a in pairs
        for b in pairs
        if a != b
    ]
    return validated(
        Problem,
        {
            "format": "palmette.pact/1",
            "models": MODELS,
            "node_sets": NODES,
            "start": {"model": "L", "nodes": "gold", "loss": start},
            "target_loss": target,
            "deadline_s": deadline_s,
            "loss_step": loss_step,
            "time_step_s": time_step_s,
            "run": run,
            "change": change,
        },
    )


def took(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time, and the result."""
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def whole_trainings() -> Record:
    """A whole schedule, planned anew before every epoch: with the factors and without."""
    problem, rows = nine_pairs(), {}
    for name, risk in (("pact", True), ("pact --no-risk", False)):
        plan = pt.plan("pact", problem=problem, risk=risk)
        epochs = sum(stretch["epochs"] for stretch in plan.decision["schedule"])
        rows[name] = {"plan_s": plan.plan_s, "epochs": epochs, "energy_j": plan.decision["energy_j"]}
    return rows | {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def one_plan(problem: Problem) -> int | None:
    """The first action, from nothing."""
    actions = actions_of(problem)
    return ActionSelector(build_graph(problem, actions, actions.robust), weigh_risk=True).select(initial_state(problem))


def growth() -> Record:
    """Seconds of one plan over 1/γ."""
    return {
        "loss_step": {
            f"{g:g}": took(lambda g=g: one_plan(nine_pairs(loss_step=g)))[0] for g in (0.02, 0.01, 0.005, 0.0025)
        },
        "time_step_s": {
            f"{g:g}": took(lambda g=g: one_plan(nine_pairs(time_step_s=g)))[0] for g in (2.0, 1.0, 0.5, 0.25)
        },
    }


def against_the_full_graph() -> Record:
    """One plan both ways on a graph that fits into memory, and the size of the one that does not."""
    small = nine_pairs(deadline_s=40.0, epochs=40, start=1.0, target=0.2)
    full_s, full_j = took(lambda: planned_j(small))
    ours_s, _ = took(lambda: one_plan(small))
    return {
        "vertices": vertices(small),
        "full_graph_s": full_s,
        "full_graph_j": full_j,
        "ours_s": ours_s,
        "times_faster": full_s / ours_s,
        "vertices_at_1000_time_units": vertices(nine_pairs()),
    }
