"""The row of a method, of DDP and of Flower: what it has learnt, and the seconds of its iterations by bandwidth.

What was trained or timed once is kept, where a file is given for that.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.command import progress
from benchmarks.flower.deployment import why_no_flower
from benchmarks.home_networks import why_no_networks
from benchmarks.talk_less import ddp
from benchmarks.talk_less.kept_rows import KeptRows
from benchmarks.talk_less.methods import SAMPLES, plan
from benchmarks.talk_less.replay import replayed
from benchmarks.talk_less.running import estimated_s, learnt, timed
from benchmarks.talk_less.tasks import TEXT, Task
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile

DDP = {"DDP": False, "DDP, PowerSGD": True}
"""The peers, and whether they have the PowerSGD hook."""
Row = dict[str, Any]


class Setting(NamedTuple):
    """What all rows of a task have in common."""

    task: Task
    profile: Profile
    iterations: int
    bandwidths: list[float]
    kept: KeptRows
    asked: Namespace
    warm: int | None = None
    """Iterations in which the learning rate rises, where a training is not as long as those of all methods."""

    @property
    def by_clock(self) -> bool:
        """Whether seconds are those of the event clock."""
        return bool(self.asked.replay and not self.asked.measure)

    def plan(self, fields: dict[str, Any]) -> Plan:
        """The network on each device, with replicas that agree as a method says."""
        return plan(self.profile.model, len(self.profile.layers), fields)


def method_row(setting: Setting, name: str, made: Plan, learnt_as: str | None = None) -> Row:
    """What a training has learnt, or ``learnt_as`` another, and the seconds of its iterations.

    In a replay those of the event clock, unless they are to be measured.
    """
    samples = len(setting.task.train)
    trained = setting.kept.row(learnt_as or name, lambda: _learnt(setting, name, made))
    estimated = {f"{b:g}": estimated_s(made, setting.profile, b, samples) for b in setting.bandwidths}
    how = "replayed in one process" if _is_replayed(setting, made) else "really run"
    if setting.by_clock:
        return {**trained, "iteration_s": estimated, "how": f"{how}; seconds of the event clock"}
    quick = setting.asked.quick
    found = _measured(setting, name, lambda b: timed(setting.task, made, setting.profile, b, quick=quick))
    found["how"] = f"{how}; seconds measured"
    return {**trained, **found, "estimated_s": estimated}


def _learnt(setting: Setting, name: str, made: Plan) -> Row:
    progress(f"{setting.task.name}: {name}: training")
    if _is_replayed(setting, made):
        return replayed(setting.task, made.phases[0], setting.iterations, setting.asked.seed, setting.warm)
    return learnt(setting.task, made, setting.profile, setting.iterations, seed=setting.asked.seed, warm=setting.warm)


def _is_replayed(setting: Setting, made: Plan) -> bool:
    """Whether a training is replayed: where that is asked for, and replicas have the whole network."""
    whole = (1, len(setting.profile.layers))
    return bool(setting.asked.replay) and all(each.layers == whole for each in made.phases[0].instances)


def ddp_row(setting: Setting, name: str) -> Row:
    """What DDP has learnt, and the seconds of its iterations: measured in namespaces, or simulated at their best."""
    progress(f"{setting.task.name}: {name}")
    trained = setting.kept.row(
        name, lambda: ddp.trained(setting.task, setting.iterations, setting.asked.seed, power_sgd=DDP[name])
    )
    device_s = computing_s(setting.profile)
    best = {f"{b:g}": ddp.simulated_s(trained, device_s, b) for b in setting.bandwidths}
    if setting.by_clock or why_no_networks("tc") is not None:
        return {**trained, "iteration_s": best, "how": "trained over gloo; seconds simulated, at their best"}
    return {**trained, **_measured(setting, name, lambda b: _ddp_timed(setting, name, b)), "at_their_best_s": best}


def _ddp_timed(setting: Setting, name: str, bandwidth_mbit: float) -> float:
    from benchmarks.talk_less import ddp_timed

    which = "text" if setting.task.name == TEXT else "images"
    return ddp_timed.timed(which, setting.profile, bandwidth_mbit, power_sgd=DDP[name])


def flower_row(setting: Setting, federated: dict[str, Any]) -> Row:
    """What Flower's FedAvg has learnt and takes, beside the fields of ``federated``; or why it is not there."""
    why = why_no_flower(setting.asked.flower) or why_no_networks("nft", "tc")
    if why is not None:
        return {"why_not": why}

    def made() -> Row:
        from benchmarks.talk_less import flower

        progress(f"{setting.task.name}: flower")
        device_s, load = computing_s(setting.profile), round(os.getloadavg()[0], 1)
        found = flower.trained(
            setting.task,
            setting.iterations,
            device_s,
            setting.bandwidths,
            setting.asked.flower,
            seed=setting.asked.seed,
        )
        return {**found, "loads": [load, round(os.getloadavg()[0], 1)], "how": "measured, its own waiting subtracted"}

    row = setting.kept.row("flower", made)
    own = setting.kept.row("federated", lambda: _learnt(setting, "federated", setting.plan(federated)))
    pairs = zip(row["evaluations"], own["evaluations"], strict=True)
    return {**row, "loss_beside_federated_at_most": max(abs(one[1] - other[1]) for one, other in pairs)}


def _measured(setting: Setting, name: str, timed_at: Callable[[float], float]) -> Row:
    """The measured seconds of an iteration by bandwidth, and how busy the machine was; what is known is kept."""

    def row(bandwidth_mbit: float) -> Row:
        progress(f"{setting.task.name}: {name}: {bandwidth_mbit:g} Mbit/s")
        before = round(os.getloadavg()[0], 1)
        return {"iteration_s": timed_at(bandwidth_mbit), "load": max(before, round(os.getloadavg()[0], 1))}

    times = {
        f"{b:g}": setting.kept.row(f"{name} at {b:g} Mbit/s", lambda b=b: row(b))  # type: ignore[misc]
        for b in setting.bandwidths
    }
    found = {key: {at: each[key] for at, each in times.items()} for key in ("iteration_s", "load")}
    return {"iteration_s": found["iteration_s"], "loads": found["load"], "how": "measured"}


def computing_s(profile: Profile) -> float:
    """Seconds of an iteration's calls on a device."""
    return calls_s(profile, "forward") + calls_s(profile, "backward") + sum(profile.nodes["one"].update_s)


def calls_s(profile: Profile, kind: str) -> float:
    """Seconds of an iteration's calls of one kind on a device."""
    times = profile.nodes["one"]
    return SAMPLES * sum(getattr(times, f"{kind}_s")) + sum(getattr(times, f"{kind}_call_s"))
