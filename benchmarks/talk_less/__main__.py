"""Bytes and emulated seconds to a loss, for every way in which replicas agree, as JSON.

    python -m benchmarks.talk_less [--task images] [--bandwidth 5] [--method step] [--iterations 400] [--quick]
    python -m benchmarks.talk_less --images ../shared/data/cifar-10-python-24k.tar.xz
    python -m benchmarks.talk_less --replay --iterations 1000 --keep rows.json
    python -m benchmarks.talk_less --cut [--bandwidth 5]

Trainings are real, and iterations are timed on shaped links; what is simulated is marked. With ``--replay``, trainings
are replayed in one process and seconds are those of the event clock: nothing depends on how busy the machine is. So it
is with ``--cut``, where there are no replicas: the network is cut in two, and each codec of outputs has a row.
"""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

import palmette as pt
from benchmarks.command import parser, print_result
from benchmarks.talk_less.cut import cut_in_two
from benchmarks.talk_less.judged import judged
from benchmarks.talk_less.kept_rows import KeptRows
from benchmarks.talk_less.methods import DEVICES, SAMPLES, cluster, methods
from benchmarks.talk_less.rows import DDP, Row, Setting, calls_s, computing_s, ddp_row, flower_row, method_row
from benchmarks.talk_less.running import to_target
from benchmarks.talk_less.tasks import ARCHIVE, Task, images, text
from palmette.spec.profile import Profile

BANDWIDTHS_MBIT = (5.0, 20.0, 100.0)
OVERLAP = "step, overlap"
"""Learns the same as ``step``, to the last bit, and sends the same bytes: it is not trained again."""
CUT_SAMPLES = 6400
"""Images of a network that is cut in two."""
TARGET_AT = 0.75
"""The loss to reach is that of ``step`` after this part of its iterations."""

AUTO = "auto"
QUICK = ["diloco 50", "diloco 50, int8"]
USUAL = ["step", OVERLAP, "diloco 50", "diloco 50, int8", "federated", AUTO]
"""Methods of the default subset, at 5 Mbit/s alone; ``--all`` has the others."""


def main() -> None:
    """Run what was asked for."""
    asked = _arguments()
    if asked.cut:
        print_result(_cut(asked))
        return
    iterations = 100 if asked.quick else asked.iterations
    samples = 2 * SAMPLES * iterations
    wanted = ["images"] if asked.quick else asked.task or ["images", "text"]
    busy = os.getloadavg()[0]
    tasks = [images(asked.images, samples) if name == "images" else text(samples) for name in wanted]
    found = {task.name: _task(task, iterations, asked) for task in tasks}
    print_result({**found, "load_average": [busy, os.getloadavg()[0]]})


def _cut(asked: Namespace) -> dict[str, Any]:
    """The small VGG cut in two, at each bandwidth."""
    task = images(asked.images, CUT_SAMPLES // 8 if asked.quick else CUT_SAMPLES)
    bandwidths = asked.bandwidth or [5.0]
    rows = {f"{bandwidth:g}": cut_in_two(task, bandwidth, asked.seed) for bandwidth in bandwidths}
    return {task.name: rows, "load": os.getloadavg()[0]}


def _arguments() -> Namespace:
    made = parser(__doc__, "three methods, the images, 100 iterations at 20 Mbit/s")
    made.add_argument("--task", action="append", choices=["images", "text"], help="only this one; may be repeated")
    made.add_argument("--bandwidth", action="append", type=float, help="only this one, in Mbit/s; may be repeated")
    made.add_argument("--method", action="append", choices=[*methods(), AUTO], help="only this one beside step")
    made.add_argument("--all", action="store_true", help="all methods at all bandwidths, not the default subset")
    made.add_argument("--open", action="store_true", help="auto also where data may move, beside a copy of it")
    made.add_argument("--flower", type=Path, metavar="ENVIRONMENT", help="folder of an environment with flwr and torch")
    made.add_argument("--iterations", type=int, default=400, help="of each training (default: 400)")
    made.add_argument("--replay", action="store_true", help="in one process, with the seconds of the event clock")
    made.add_argument("--measure", action="store_true", help="with --replay: time iterations on shaped links")
    made.add_argument("--cut", action="store_true", help="no replicas: the network cut in two, by codec of outputs")
    made.add_argument("--seed", type=int, default=0, help="of weights and batches; pilots have others (default: 0)")
    made.add_argument("--keep", type=Path, help="a file that keeps what was trained, to go on from")
    made.add_argument("--images", type=Path, default=ARCHIVE, help="CIFAR-10, an archive in the official layout")
    return made.parse_args()


def _task(task: Task, iterations: int, asked: Namespace) -> dict[str, Any]:
    chosen = QUICK if asked.quick else asked.method or _usual(asked)
    profile = pt.profile(task.recipe(iterations), cluster=cluster(5.0, len(task.train)))
    kept = KeptRows(asked.keep, (task.name, iterations, asked.seed, asked.replay))
    setting = Setting(task, profile, iterations, _bandwidths(asked), kept, asked)
    rows: dict[str, Row] = {}
    for name in dict.fromkeys(["step", *(each for each in chosen if each != AUTO)]):
        rows[name] = method_row(setting, name, setting.plan(methods()[name]), "step" if name == OVERLAP else None)
    rows |= {} if asked.quick else {name: ddp_row(setting, name) for name in DDP}
    rows |= {} if asked.quick else {"flower": flower_row(setting, methods()["federated"])}
    at = TARGET_AT * iterations
    target = min(rows["step"]["evaluations"], key=lambda each: abs(each[0] - at))[1]
    told = {name: row | to_target(row, target) for name, row in rows.items()}
    found = {"target_loss": target, "methods": told, **_aims(rows, profile, setting.bandwidths)}
    if AUTO in chosen:
        found[AUTO] = judged(setting, rows, target)
    return found


def _bandwidths(asked: Namespace) -> list[float]:
    if asked.quick:
        return [20.0]
    return asked.bandwidth or (list(BANDWIDTHS_MBIT) if asked.all or _by_clock(asked) else [5.0])


def _usual(asked: Namespace) -> list[str]:
    """All methods that can be: in turns where workers really run, other momenta where they are replayed."""
    left_out = "in turns" if asked.replay else "momentum"
    every = [*(name for name in methods() if left_out not in name), AUTO]
    return every if asked.all or _by_clock(asked) else [name for name in every if name in USUAL]


def _by_clock(asked: Namespace) -> bool:
    return bool(asked.replay and not asked.measure)


def _aims(rows: dict[str, dict[str, Any]], profile: Profile, bandwidths: list[float]) -> dict[str, Any]:
    """What overlap hides of what it can, and DiLoCo beside step after the same samples."""
    found: dict[str, Any] = {}
    step = rows["step"]
    if OVERLAP in rows:
        found["overlap"] = {f"{b:g}": _hidden(rows, profile, b) for b in bandwidths}
    for name in (name for name in rows if name.startswith("diloco")):
        loss = rows[name]["evaluations"][-1][1] / step["evaluations"][-1][1] - 1
        bytes_saved = step["bytes_an_iteration"] / rows[name]["bytes_an_iteration"]
        beside = {"loss": loss, "times_fewer_bytes": bytes_saved}
        if "chosen_on" in step:
            beside["loss_chosen_on"] = rows[name]["chosen_on"] / step["chosen_on"] - 1
        found.setdefault("beside_step", {})[name] = beside
    return found


def _hidden(rows: dict[str, dict[str, Any]], profile: Profile, bandwidth_mbit: float) -> dict[str, float]:
    """What overlap hides: of backward, or of the exchange where that is shorter; and of all that the links allow."""
    apart_s, overlapped_s = (rows[name]["iteration_s"][f"{bandwidth_mbit:g}"] for name in ("step", OVERLAP))
    device_s, backward_s = computing_s(profile), calls_s(profile, "backward")
    one_way_s = rows["step"]["bytes_an_iteration"] / (2 * len(DEVICES)) * 8 / (bandwidth_mbit * 1e6)
    hidden_s = apart_s - overlapped_s
    behind_backward_s = min(backward_s, 2 * one_way_s)
    at_most_s = apart_s - max(device_s, one_way_s)
    return {"hidden_s": hidden_s, "of_backward": hidden_s / behind_backward_s, "of_all": hidden_s / at_most_s}


if __name__ == "__main__":
    main()
