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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import palmette as pt
from benchmarks.command import parser, print_result, progress
from benchmarks.home_networks import why_no_networks
from benchmarks.talk_less import ddp
from benchmarks.talk_less.cut import cut_in_two
from benchmarks.talk_less.kept_rows import KeptRows
from benchmarks.talk_less.methods import DEVICES, SAMPLES, cluster, methods, plan
from benchmarks.talk_less.replay import replayed
from benchmarks.talk_less.running import estimated_s, learnt, reached, timed
from benchmarks.talk_less.tasks import ARCHIVE, TEXT, Task, images, text
from palmette.spec.profile import Profile

BANDWIDTHS_MBIT = (5.0, 20.0, 100.0)
OVERLAP = "step, overlap"
"""Learns the same as ``step``, to the last bit, and sends the same bytes: it is not trained again."""
CUT_SAMPLES = 6400
"""Images of a network that is cut in two."""
TARGET_AT = 0.75
"""The loss to reach is that of ``step`` after this part of its iterations."""

DDP = {"DDP": False, "DDP, PowerSGD": True}
"""The peers, and whether they have the PowerSGD hook."""


class _Setting(NamedTuple):
    """What all rows of a task have in common."""

    task: Task
    profile: Profile
    bandwidths: list[float]
    kept: KeptRows
    asked: Namespace


def main() -> None:
    """Run what was asked for."""
    asked = _arguments()
    if asked.cut:
        print_result(_cut(asked))
        return
    iterations = 100 if asked.quick else asked.iterations
    samples = 2 * SAMPLES * iterations
    wanted = ["images"] if asked.quick else asked.task or ["images", "text"]
    tasks = [images(asked.images, samples) if name == "images" else text(samples) for name in wanted]
    print_result({task.name: _task(task, iterations, asked) for task in tasks})


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
    made.add_argument("--method", action="append", choices=list(methods()), help="only this one beside step")
    made.add_argument("--iterations", type=int, default=400, help="of each training (default: 400)")
    made.add_argument("--replay", action="store_true", help="in one process, with the seconds of the event clock")
    made.add_argument("--cut", action="store_true", help="no replicas: the network cut in two, by codec of outputs")
    made.add_argument("--seed", type=int, default=0, help="of a replay's weights and batches (default: 0)")
    made.add_argument("--keep", type=Path, help="a file that keeps what was trained, to go on from")
    made.add_argument("--images", type=Path, default=ARCHIVE, help="CIFAR-10, an archive in the official layout")
    return made.parse_args()


def _task(task: Task, iterations: int, asked: Namespace) -> dict[str, Any]:
    quick = ["diloco 50", "diloco 50, int8"]
    chosen = quick if asked.quick else asked.method or _usual(asked)
    bandwidths = [20.0] if asked.quick else asked.bandwidth or list(BANDWIDTHS_MBIT)
    profile = pt.profile(task.recipe(iterations), cluster=cluster(5.0, len(task.train)))
    rows: dict[str, dict[str, Any]] = {}
    kept = KeptRows(asked.keep, (task.name, iterations, asked.seed, asked.replay))
    setting = _Setting(task, profile, bandwidths, kept, asked)
    for name in dict.fromkeys(["step", *chosen]):
        learnt_as = "step" if name == OVERLAP else name
        trained = kept.row(learnt_as, lambda learnt_as=learnt_as: _learnt(task, learnt_as, profile, iterations, asked))
        rows[name] = _row(setting, name, trained)
    step = rows["step"]
    for name, power_sgd in {} if asked.quick else DDP.items():
        progress(f"{task.name}: {name}")
        found = kept.row(name, lambda power_sgd=power_sgd: ddp.trained(task, iterations, power_sgd=power_sgd))
        rows[name] = _ddp_row(setting, name, found)
    at = TARGET_AT * iterations
    target = min(step["evaluations"], key=lambda each: abs(each[0] - at))[1]
    told = {name: row | _to_target(row, target) for name, row in rows.items()}
    return {"target_loss": target, "methods": told, **_aims(rows, profile, bandwidths), "load": os.getloadavg()[0]}


def _usual(asked: Namespace) -> list[str]:
    """All methods; in turns only where workers really run, other momenta only where they are replayed."""
    left_out = "in turns" if asked.replay else "momentum"
    return [name for name in methods() if left_out not in name]


def _learnt(task: Task, name: str, profile: Profile, iterations: int, asked: Namespace) -> dict[str, Any]:
    progress(f"{task.name}: {name}: training")
    made = plan(profile.model, len(profile.layers), methods()[name])
    if asked.replay:
        return replayed(task, made.phases[0], iterations, asked.seed)
    return learnt(task, made, profile, iterations)


def _row(setting: _Setting, name: str, trained: dict[str, Any]) -> dict[str, Any]:
    """What a training has learnt, and the seconds of its iterations: those of the event clock in a replay."""
    profile = setting.profile
    made = plan(profile.model, len(profile.layers), methods()[name])
    samples = len(setting.task.train)
    estimated = {f"{b:g}": estimated_s(made, profile, b, samples) for b in setting.bandwidths}
    if setting.asked.replay:
        return {**trained, "iteration_s": estimated, "how": "replayed in one process; seconds of the event clock"}
    return {**trained, **_measured(setting, name, lambda b: _timed(setting, name, b)), "estimated_s": estimated}


def _ddp_row(setting: _Setting, name: str, trained: dict[str, Any]) -> dict[str, Any]:
    """What DDP has learnt, and the seconds of its iterations: measured in namespaces, or simulated at their best."""
    computing_s = _computing_s(setting.profile)
    best = {f"{b:g}": ddp.simulated_s(trained, computing_s, b) for b in setting.bandwidths}
    if setting.asked.replay or why_no_networks("tc") is not None:
        return {**trained, "iteration_s": best, "how": "trained over gloo; seconds simulated, at their best"}
    return {**trained, **_measured(setting, name, lambda b: _ddp_timed(setting, name, b)), "at_their_best_s": best}


def _measured(setting: _Setting, name: str, timed_at: Callable[[float], float]) -> dict[str, Any]:
    """The measured seconds of an iteration by bandwidth, and how busy the machine was; what is known is kept."""

    def row(bandwidth_mbit: float) -> dict[str, Any]:
        progress(f"{setting.task.name}: {name}: {bandwidth_mbit:g} Mbit/s")
        return {"iteration_s": timed_at(bandwidth_mbit), "load": round(os.getloadavg()[0], 1)}

    times = {
        f"{b:g}": setting.kept.row(f"{name} at {b:g} Mbit/s", lambda b=b: row(b))  # type: ignore[misc]
        for b in setting.bandwidths
    }
    found = {key: {at: each[key] for at, each in times.items()} for key in ("iteration_s", "load")}
    return {"iteration_s": found["iteration_s"], "loads": found["load"], "how": "measured"}


def _timed(setting: _Setting, name: str, bandwidth_mbit: float) -> float:
    made = plan(setting.profile.model, len(setting.profile.layers), methods()[name])
    return timed(setting.task, made, setting.profile, bandwidth_mbit)


def _ddp_timed(setting: _Setting, name: str, bandwidth_mbit: float) -> float:
    from benchmarks.talk_less import ddp_timed

    which = "text" if setting.task.name == TEXT else "images"
    return ddp_timed.timed(which, setting.profile, bandwidth_mbit, power_sgd=DDP[name])


def _to_target(row: dict[str, Any], target: float) -> dict[str, Any]:
    many = reached(row["evaluations"], target)
    if many is None:
        return {"iterations_to_target": None}
    seconds = {bandwidth: many * each for bandwidth, each in row["iteration_s"].items()}
    return {"iterations_to_target": many, "bytes_to_target": many * row["bytes_an_iteration"], "target_s": seconds}


def _computing_s(profile: Profile) -> float:
    """Seconds of an iteration's calls on a device."""
    return _calls_s(profile, "forward") + _calls_s(profile, "backward") + sum(profile.nodes["one"].update_s)


def _calls_s(profile: Profile, kind: str) -> float:
    times = profile.nodes["one"]
    return SAMPLES * sum(getattr(times, f"{kind}_s")) + sum(getattr(times, f"{kind}_call_s"))


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
    computing_s, backward_s = _computing_s(profile), _calls_s(profile, "backward")
    one_way_s = rows["step"]["bytes_an_iteration"] / (2 * len(DEVICES)) * 8 / (bandwidth_mbit * 1e6)
    hidden_s = apart_s - overlapped_s
    behind_backward_s = min(backward_s, 2 * one_way_s)
    at_most_s = apart_s - max(computing_s, one_way_s)
    return {"hidden_s": hidden_s, "of_backward": hidden_s / behind_backward_s, "of_all": hidden_s / at_most_s}


if __name__ == "__main__":
    main()
