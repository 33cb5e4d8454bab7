"""PACT for real: a small VGG on the digits, gold → silver → bronze with real pruning, decided epoch by epoch.

Prints JSON: for every seed PACT's run, never switching, and the best of all single switches in hindsight, all of them
real runs on the paced testbed that end when the mean loss of an epoch reaches the target. With ``--replay`` all of them
are trained in one process, with the same batches and decisions, at the evaluator's prices by a recorded profile.

    python -m benchmarks.pact_run [--replay] [SEED ...]
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from benchmarks.command import parser, print_result, progress
from benchmarks.pact_run.beginnings import Beginnings
from benchmarks.pact_run.deciding import director
from benchmarks.pact_run.hindsight import Hindsight, Schedule
from benchmarks.pact_run.pilot import FIRST, Known, courses, known
from benchmarks.pact_run.replay import own_data
from benchmarks.pact_run.setting import BATCH, LR, MODEL, PAIRS, TARGET, phases, task
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.plan.core.strategy import Task
from palmette.runtime.options import Options
from palmette.runtime.training.job import EpochCallback
from palmette.spec.plan import Inputs, Phase, Plan
from palmette.spec.problem import Pair

SEEDS, PILOTS = (0, 1, 2), (11, 12, 13, 14, 15, 16)
Record = dict[str, Any]
RunsOfSeed = Callable[[Task, dict[Pair, Phase], Known, Hindsight, int], Record]


def main() -> None:
    """Pilots, and for each seed the runs; prints JSON."""
    options = parser(__doc__, "one pilot, and PACT's run alone with one seed, without emulation")
    options.add_argument("seeds", nargs="*", type=int, metavar="SEED", help=f"default: {' '.join(map(str, SEEDS))}")
    options.add_argument("--replay", action="store_true", help="without the testbed, for a machine that is busy")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.quick:
        print_result(in_short((given.seeds or SEEDS)[0]))
    else:
        runs = _replayed if given.replay else _seed
        print_result(compared(given.seeds or SEEDS, runs, task(recorded=given.replay)))


def in_short(seed: int) -> Record:
    """PACT's run after one pilot that switched twice, on this machine as it is."""
    asked, parts = task(), own_data()
    pairs = phases(asked)
    told = known(courses(PILOTS[0], parts, FIRST[:2]))
    found = _decided(asked, pairs, told, seed, testbed="none")
    return {"target_loss": TARGET, "deadline_s": asked.goal.deadline_s, "pact": found}


def compared(seeds: Sequence[int], of_seed: RunsOfSeed, asked: Task) -> Record:
    """PACT's runs beside never switching and the best switch."""
    parts = own_data()
    pairs = phases(asked)
    told = known([course for seed in PILOTS for course in courses(seed, parts)])
    progress(str(told))
    rows = [of_seed(asked, pairs, told, Hindsight(asked, pairs, Beginnings(parts, seed)), seed) for seed in seeds]
    return {
        "target_loss": TARGET,
        "deadline_s": asked.goal.deadline_s,
        "costs": {f"{model}, {nodes}": _costs(asked, pairs[model, nodes]) for model, nodes in PAIRS},
        "seeds": {str(seed): row for seed, row in zip(seeds, rows, strict=True)},
        "met": sum(row["pact"]["meets"] for row in rows),
        "saved": {rival: _summary(rows, rival) for rival in ("beside_never", "beside_best_switch")},
    }


def _summary(rows: Sequence[Record], rival: str) -> Record:
    saved = [row["saved"][rival] for row in rows if row["saved"][rival] is not None]
    return {"mean": fmean(saved), "least": min(saved)} if saved else {}


def _costs(asked: Task, phase: Phase) -> Record:
    price = asked.evaluator.price(phase)
    return {"epoch_s": price.epoch.time_s, "epoch_j": price.epoch.energy_j}


def _seed(asked: Task, pairs: dict[Pair, Phase], told: Known, hindsight: Hindsight, seed: int) -> Record:
    row: Record = {"pact": _decided(asked, pairs, told, seed)}
    replayed = hindsight.losses(tuple((tuple(p["pair"]), p["epochs"]) for p in row["pact"]["schedule"]))
    row["pact"]["off_from_one_process"] = max(abs(a - b) for a, b in zip(row["pact"]["losses"], replayed, strict=True))
    every = list(hindsight.every_switch())
    never, switches = every[-1], every[:-1]
    best = min((each for each in switches if each.meets), key=lambda each: each.energy_j, default=None)
    row["single_switches"] = [each._asdict() for each in switches]
    row["never"] = _run(asked, _plan(asked, pairs, never.schedule), seed)
    row["best_switch"] = None if best is None else _run(asked, _plan(asked, pairs, best.schedule), seed)
    row["saved"] = _saved(row)
    return row


def _replayed(asked: Task, pairs: dict[Pair, Phase], told: Known, hindsight: Hindsight, seed: int) -> Record:
    """The same without a testbed."""
    found = hindsight.decided(director(asked, pairs, told))
    best, never = hindsight.best_switch(), hindsight.never()
    row: Record = {"pact": found._asdict(), "never": never._asdict(), "best_switch": best and best._asdict()}
    row["saved"] = _saved(row)
    progress(f"{seed} {json.dumps(row)}")
    return row


def _saved(row: Record) -> dict[str, float | None]:
    """The part of each rival's energy that PACT saves."""
    ours = row["pact"]["energy_j"]
    return {
        "beside_never": 1 - ours / row["never"]["energy_j"],
        "beside_best_switch": row["best_switch"] and 1 - ours / row["best_switch"]["energy_j"],
    }


def _decided(asked: Task, pairs: dict[Pair, Phase], told: Known, seed: int, testbed: str = "paced") -> Record:
    begun = _plan(asked, pairs, tuple((pair, 1) for pair in PAIRS))  # after the first epoch it is decided what follows
    return _run(asked, begun, seed, director(asked, pairs, told), testbed)


def _plan(asked: Task, pairs: dict[Pair, Phase], schedule: Schedule) -> Plan:
    made = tuple(pairs[pair].model_copy(update={"epochs": epochs}) for pair, epochs in schedule)
    return Plan(model=MODEL, batch=BATCH, phases=made, inputs=Inputs(cluster=asked.cluster, profile=asked.profile))


def _run(
    asked: Task, plan: Plan, seed: int, on_epoch_end: EpochCallback | None = None, testbed: str = "paced"
) -> Record:
    """A real run to its end, decided epoch by epoch where there is somebody to ask: what was trained, what it took."""
    folder = Path(tempfile.mkdtemp(prefix="pact-run-")) / "out"
    options = Options(optimizer="adam", lr=LR, seed=seed)
    made = prepare(plan, asked.profile, asked.cluster, Request(data="digits", testbed=testbed, options=options), folder)
    made._job = replace(made._job, on_epoch_end=on_epoch_end)  # noqa: SLF001  (with the pilots' predictions)
    outcome = made.run(lambda _: None, lambda _: None)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    written = json.loads((folder / "run.json").read_text())
    steps = [line for line in lines if "accuracy" not in line]
    epochs = dict.fromkeys(line["epoch"] for line in steps)
    losses = [fmean(line["loss"] for line in steps if line["epoch"] == epoch) for epoch in epochs]
    names = {phase.pruning: pair for pair, phase in phases(asked).items()}
    found = {
        "schedule": [{"pair": names[p["pruning"]], "epochs": p["epochs"]} for p in written["plan"]["phases"]],
        "energy_j": outcome.energy_j,
        "time_s": outcome.time_s,
        "dilation": outcome.dilation,
        "losses": losses,
        "accuracy": [line["accuracy"] for line in lines if "accuracy" in line][-1],
        "meets": losses[-1] <= TARGET and outcome.time_s <= (asked.goal.deadline_s or math.inf),
    }
    progress(f"{seed} {'decided' if on_epoch_end else 'fixed'} {json.dumps(found)}")
    return found


if __name__ == "__main__":
    main()
