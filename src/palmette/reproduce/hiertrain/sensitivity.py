"""How sensitive the speed-ups are: the same figures with one assumption changed at a time. No figure uses these.

The paper gives neither its batch, nor its layer times, nor how a sample travels; it trains with Chainer, and says that
its cloud computes one order of magnitude faster than device and edge server, where the catalogue's rates, those of
tuned libraries, are two or three orders apart. So: samples as bytes, larger batches, and slower CPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.strategy import Task
from palmette.reproduce.hiertrain import paper
from palmette.spec.profile import Profile, Times

STRATEGIES = ("hiertrain", "all-edge", "all-cloud", "jalad")
SECONDS = ("forward_s", "backward_s", "backward_input_s", "update_s", "forward_call_s", "backward_call_s")


class Assumption(NamedTuple):
    """A changed assumption: what it is, and by which factors."""

    what: str
    input_bytes: float = 1.0
    batch: float = 1.0
    cpu_s: float = 1.0


ASSUMPTIONS = (
    Assumption("nothing"),
    Assumption("a sample travels as bytes, a quarter of its float32 numbers", input_bytes=0.25),
    Assumption("the batch is four times as large", batch=4.0),
    Assumption("device and edge server are 10 times slower", cpu_s=10.0),
    Assumption("device and edge server are 30 times slower", cpu_s=30.0),
)


def sensitivity(profiles: Mapping[str, Profile], batch: int) -> list[dict[str, Any]]:
    """For each assumption: HierTrain's largest speed-ups on each network, and where JALAD is faster."""
    return [
        {
            "changed": assumption.what,
            **{name: _outcome(profile, batch, assumption) for name, profile in profiles.items()},
        }
        for assumption in ASSUMPTIONS
    ]


def _outcome(profile: Profile, batch: int, assumption: Assumption) -> dict[str, Any]:
    changed, many = _changed(profile, assumption), round(batch * assumption.batch)
    seconds = {name: [_iteration_s(name, changed, mbps, many) for mbps in paper.EDGE_CLOUD_MBPS] for name in STRATEGIES}
    ours = seconds["hiertrain"]
    return {
        "over_all_edge": max(a / b for a, b in zip(seconds["all-edge"], ours, strict=True)),
        "over_all_cloud": max(a / b for a, b in zip(seconds["all-cloud"], ours, strict=True)),
        "jalad_ahead_at_mbps": faster_at(seconds["jalad"], ours, 1e-6),
    }


def faster_at(theirs: list[float], ours: list[float], noise: float) -> list[float]:
    """The bandwidths at which theirs take less time than ours, by more than the fraction ``noise``."""
    return [mbps for mbps, a, b in zip(paper.EDGE_CLOUD_MBPS, theirs, ours, strict=True) if a < b * (1 - noise)]


def _iteration_s(strategy: str, profile: Profile, mbps: float, batch: int) -> float:
    task = Task(profile=profile, cluster=paper.machines(mbps), batch=batch, input_as="tensor")
    return float(make_plan(configured(strategy, {}), task).decision["iteration_s"])


def _changed(profile: Profile, assumption: Assumption) -> Profile:
    nodes = {name: scaled(times, 1.0 if name == "cloud" else assumption.cpu_s) for name, times in profile.nodes.items()}
    return profile.model_copy(update={"nodes": nodes, "input_bytes": profile.input_bytes * assumption.input_bytes})


def scaled(times: Times, factor: float) -> Times:
    """Times of a machine that is slower by a factor."""
    known = {field: getattr(times, field) for field in SECONDS}
    slower = {field: tuple(factor * each for each in values) for field, values in known.items() if values is not None}
    return times.model_copy(update=slower)
