"""PACT for real: a small VGG on the digits, gold → silver → bronze with real pruning, decided epoch by epoch.

Prints JSON: the energy of PACT's run, of never switching, and of every single switch that was tried, all of them real
runs on the paced testbed that end when the mean loss of an epoch reaches the target.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import palmette as pt
from benchmarks.pact_run.pilot import table
from palmette.control.run import Request, Running, start
from palmette.plan.pact_search.stages import stages
from palmette.plan.strategy import Task
from palmette.runtime.job import Standing
from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.plan import Inputs, Phase, Plan
from palmette.spec.profile import Profile, Table, Times

MODEL = "benchmarks.pact_run.network:vgg"
CLUSTER = """\
nodes:
  cloud:  {tier: cloud,  host: local, power: {idle: 90 W, busy: 250 W}, source: {samples: 1500, data: digits}}
  server: {tier: edge,   host: local, power: {idle: 30 W, busy: 110 W}, source: {samples: 1500, data: digits}}
  phone:  {tier: device, host: local, power: {idle: 10 W, busy: 42 W},  source: {samples: 1500, data: digits}}
links:
  - {between: [cloud, server], bandwidth: 50 Mbit/s, latency: 10 ms, energy: 20 nJ/bit}
  - {between: [server, phone], bandwidth: 20 Mbit/s, latency: 3 ms, energy: 60 nJ/bit}
sets: {gold: [cloud], silver: [server], bronze: [phone]}
"""
SLOWER = {"cloud": 2.0, "server": 3.0, "phone": 5.0}  # than this machine, one thread
VARIANTS = (0.5, 0.75)
TARGET, DEADLINE_S, BATCH, MOST_EPOCHS = 0.15, 20.0, 32, 40
SWITCHES = [(4, ("0.5", "silver")), (8, ("0.5", "silver")), (4, ("0.5", "bronze")), (8, ("0.75", "bronze"))]


def slowed(times: Times, factor: float) -> Times:
    arrays = {name: tuple(factor * s for s in array) for name, array in times if isinstance(array, tuple)}
    return times.model_copy(update=arrays)


def emulated(measured: Profile) -> Profile:
    """The profile of this machine, with nodes that are slower by known factors."""

    def slower(found: Table) -> dict[str, Any]:
        return {"nodes": {name: slowed(times, SLOWER[name]) for name, times in found.nodes.items()}}

    variants = {key: each.model_copy(update=slower(each)) for key, each in measured.variants.items()}
    return measured.model_copy(update={**slower(measured), "variants": variants})


def running(plan: Plan, profile: Profile, cluster: Cluster, folder: Path, direct: Any = None) -> Running:
    options = Options(optimizer="adam", lr=0.0002, seed=0)
    made = start(plan, profile, cluster, Request(data="digits", options=options), folder)
    if direct is not None:
        made._job = dataclasses.replace(made._job, direct=direct)  # noqa: SLF001  (another director than PACT)
    return made


def carried_out(made: Running) -> dict[str, Any]:
    outcome = made.run(lambda _: None, lambda _: None)
    metrics = [json.loads(line) for line in (made.folder / "metrics.jsonl").read_text().splitlines()]
    written = json.loads((made.folder / "run.json").read_text())
    schedule = [
        {"pruning": p["pruning"], "nodes": p["sources"][0]["node"], "epochs": p["epochs"]}
        for p in written["plan"]["phases"]
    ]
    judged = [line for line in metrics if "accuracy" in line and "pruning" not in line]
    last = max(line["epoch"] for line in metrics)
    losses = [line["loss"] for line in metrics if "accuracy" not in line and line["epoch"] == last]
    return {
        "schedule": schedule,
        "energy_j": outcome.energy_j,
        "time_s": outcome.time_s,
        "loss": sum(losses) / len(losses),
        "accuracy": judged[-1]["accuracy"],
        "meets": sum(losses) / len(losses) <= TARGET and outcome.time_s <= DEADLINE_S,
    }


def until_target(standing: Standing) -> Sequence[Phase] | None:
    """End when the loss is reached."""
    return [] if standing.losses[-1] <= TARGET or standing.time_s > DEADLINE_S else None


def switching(after: int, to: Phase) -> Callable[[Standing], Sequence[Phase] | None]:
    """Switch after so many epochs, and end when the loss is reached."""

    def direct(standing: Standing) -> Sequence[Phase] | None:
        if standing.losses[-1] <= TARGET or standing.time_s > DEADLINE_S:
            return []
        switched = standing.number > 0 or len(standing.losses) >= after
        return [to.model_copy(update={"epochs": 1})] if switched else None

    return direct


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="pact-run-"))
    (folder / "cluster.yaml").write_text(CLUSTER)
    cluster = pt.load_cluster(folder / "cluster.yaml")
    profile = emulated(pt.profile(MODEL, cluster=cluster, variants=VARIANTS))
    goal = Goal(weights=parse_weights("energy"), deadline_s=DEADLINE_S, loss=TARGET)
    task = Task(profile=profile, cluster=cluster, batch=BATCH, goal=goal)
    pairs, problem = stages(task), table(task, MODEL, VARIANTS, TARGET, DEADLINE_S)
    pact = pt.plan("pact", profile=profile, cluster=cluster, batch=BATCH, goal=goal, problem=problem)
    gold = pairs["0", "gold"].model_copy(update={"epochs": MOST_EPOCHS})
    alone = Plan(model=MODEL, batch=BATCH, phases=(gold,), inputs=Inputs(cluster=cluster, profile=profile))
    found: dict[str, Any] = {"target_loss": TARGET, "deadline_s": DEADLINE_S, "planned": pact.decision["schedule"]}
    found["pact"] = carried_out(running(pact, profile, cluster, folder / "pact"))
    print("pact", found["pact"], file=sys.stderr, flush=True)
    found["never"] = carried_out(running(alone, profile, cluster, folder / "never", until_target))
    print("never", found["never"], file=sys.stderr, flush=True)
    found["one_switch"] = []
    for epoch, pair in SWITCHES:
        direct = switching(epoch, pairs[pair])
        row = carried_out(running(alone, profile, cluster, folder / f"{epoch}-{pair[1]}", direct))
        found["one_switch"].append({"after": epoch, "to": pair, **row})
        print(epoch, pair, row, file=sys.stderr, flush=True)
    best = min((row for row in found["one_switch"] if row["meets"]), key=lambda row: row["energy_j"], default=None)
    found["best_switch"] = best
    found["saved"] = {
        "beside_never": 1 - found["pact"]["energy_j"] / found["never"]["energy_j"],
        "beside_best_switch": None if best is None else 1 - found["pact"]["energy_j"] / best["energy_j"],
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
