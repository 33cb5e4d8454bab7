"""Plans and folders of runs as a run leaves them, made from the evaluator's own timeline a little stretched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import palmette as pt
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Inputs, Phase, Plan
from palmette.spec.tree import Feed, Instance
from tests.plan.problems import profile, three_tiers

MODELLED = "modelled: declared power of the nodes on the measured trace"


def tree(cluster: Cluster | None = None, names: tuple[str, str, str] = ("front", "back", "whole")) -> Plan:
    """A tree of three instances on three nodes, priced."""
    front, back, whole = names
    phase = Phase(
        sources=(
            Feed(node="phone", samples=8, into=front),
            Feed(node="phone", samples=4, into=whole),
        ),
        instances=(
            Instance(id=front, layers=(1, 1), node="phone", into=back, codec="int8"),
            Instance(id=back, layers=(2, 4), node="server"),
            Instance(id=whole, layers=(1, 4), node="cloud"),
        ),
    )
    inputs = Inputs(cluster=cluster or three_tiers(), profile=profile(4))
    made = Plan(strategy="manual", model="tiny", batch=12, phases=(phase,), inputs=inputs)
    return made.model_copy(update={"estimate": pt.estimate(made)})


def plan_file(path: Path, plan: Plan) -> Path:
    """The plan in a file."""
    path.write_text(plan.to_json(), encoding="utf-8")
    return path


def run_folder(folder: Path, plan: Plan, *, iterations: int = 5, stretch: float = 1.1, **changes: Any) -> Path:
    """A folder as ``palmette run`` leaves it; every operation took ``stretch`` times its estimate."""
    folder.mkdir(parents=True, exist_ok=True)
    estimate = pt.estimate(plan, timeline=True)
    assert estimate.timeline is not None
    lasts_s = estimate.iteration_s * stretch
    trace, metrics = [], []
    for number in range(iterations):
        zero_s = number * lasts_s
        for done in estimate.timeline:
            row = done.model_dump(mode="json") | {"iteration": number}
            row |= {"start_s": zero_s + done.start_s * stretch, "end_s": zero_s + done.end_s * stretch}
            trace.append(row)
        metrics.append(
            {
                "iteration": number,
                "epoch": 0,
                "loss": 2.3 / (1 + number),
                "samples": plan.batch,
                "wall_s": zero_s + lasts_s,
                "iteration_s": lasts_s,
            }
        )
    if iterations:
        metrics.append({"iteration": iterations - 1, "epoch": 0, "accuracy": 0.75, "loss": 0.4})
    joules = None if estimate.iteration_j is None else estimate.iteration_j * iterations * stretch
    run = {
        "format": "palmette.run/1",
        "ended": "done",
        "iterations": iterations,
        "iteration_s": lasts_s,
        "estimate_s": estimate.iteration_s,
        "energy_j": joules,
        "energy_source": MODELLED,
        "accuracy": 0.75,
        "dilation": 1.0,
        "testbed": "paced",
        "seed": 0,
        "plan": plan.model_dump(mode="json"),
    } | changes
    (folder / "run.json").write_text(json.dumps(run), encoding="utf-8")
    (folder / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in trace), encoding="utf-8")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics), encoding="utf-8")
    return folder
