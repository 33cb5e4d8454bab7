"""The worlds: a device with private images, a server, and a link between them that is a trace.

The device is as slow as makes the choice hard: an iteration on it alone takes ``RATIOS`` times what the best split
takes at the mean of the trace. So a link that is slower or faster than its mean for a while changes what is best.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.measure.profiling import profile_network
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster, Link
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.link_trace import BandwidthTrace
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

FOLDER = Path("../shared/data/link-traces")
MODEL, BATCH = "squeezenet?size=64&classes=10", 32
DEVICE, SERVER = "phone", "server"
HARDWARE = {DEVICE: "raspberry-pi-4", SERVER: "xeon-gtx-1080-ti"}
RATIOS = (1.0, 1.5)
STRATEGY, EFFORT = "hybrid", 0.1


class World(NamedTuple):
    """A training over a trace: the same for all ways of planning."""

    name: str
    ratio: float
    trace: BandwidthTrace
    profile: Profile
    cluster: Cluster

    def plan(self, cluster: Cluster, *, robust: float | None = None) -> Plan:
        """The plan for the least time."""
        goal = Goal(weights=parse_weights("time"))
        task = Task(profile=self.profile, cluster=cluster, batch=BATCH, goal=goal, epochs=1, robust=robust)
        return make_plan(configured(STRATEGY, {"effort": EFFORT}), task)


def world(name: str, trace: BandwidthTrace, ratio: float) -> World:
    """A device that takes ``ratio`` times as long alone as with the server, at the mean of the trace."""
    cluster = _cluster(trace)
    known = _profile()
    low, high = 1e-3, 1e4
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _alone_over_split(_slower(known, middle), cluster) < ratio else (low, middle)
    return World(name, ratio, trace, _slower(known, high), cluster)


def whole_on_device(layers: int) -> Phase:
    """Everything where the images are."""
    return Phase(
        sources=(Feed(node=DEVICE, samples=BATCH, into="all"),),
        instances=(Instance(id="all", layers=(1, layers), node=DEVICE),),
    )


def _alone_over_split(profile: Profile, cluster: Cluster) -> float:
    """Seconds on the device alone over those of its best single cut."""
    prices, depth = Evaluator(profile, cluster), len(profile.layers)
    cuts = [prices.price(_cut(cut, depth)).iteration_s for cut in range(1, depth)]
    return prices.price(whole_on_device(depth)).iteration_s / min(cuts)


def _cut(cut: int, depth: int) -> Phase:
    return Phase(
        sources=(Feed(node=DEVICE, samples=BATCH, into="front"),),
        instances=(
            Instance(id="back", layers=(cut + 1, depth), node=SERVER),
            Instance(id="front", layers=(1, cut), node=DEVICE, into="back"),
        ),
    )


def _cluster(trace: BandwidthTrace) -> Cluster:
    nodes = {
        DEVICE: {"tier": "device", "hardware": HARDWARE[DEVICE], "source": {"samples": 2000, "private": True}},
        SERVER: {"tier": "edge", "hardware": HARDWARE[SERVER]},
    }
    link = Link(between=(DEVICE, SERVER), latency_s=0.02, bandwidth_trace=trace)
    made = Cluster.model_validate({"nodes": nodes})
    return fill_hardware_defaults(made.model_copy(update={"links": (link,)}))


@cache
def _profile() -> Profile:
    constant = BandwidthTrace(time_s=(0.0,), down_bps=(1e6,))
    return profile_network(load_network(MODEL), _cluster(constant), [])


def _slower(profile: Profile, factor: float) -> Profile:
    """The profile with a device that takes so many times as long."""
    times = profile.nodes[DEVICE]
    slower = times.model_copy(
        update={
            name: tuple(factor * each for each in value)
            for name, value in times
            if name.endswith("_s") and isinstance(value, tuple)
        }
    )
    return profile.model_copy(update={"nodes": {**profile.nodes, DEVICE: slower}})
