"""The setting of Gu et al.: machines, links and networks, and what is known of each case.

A desktop with a GTX 1050, a Jetson TX2 and a Jetson TX1 of the catalogue, joined two by two; five networks on 32×32
images in batches of 32, 100,000 steps; 1 Gbit/s, 100 and 10 Mbit/s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple, Protocol

from palmette.cost.routes import Route
from palmette.measure.bandwidth import MeasuredLink as MeasuredPath
from palmette.measure.communication_factors import StandaloneDevice
from palmette.spec.cluster import Cluster, Link, Node, Source
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance
from palmette.zoo.hardware_defaults import fill_hardware_defaults

BATCH, STEPS, PRETRAINED_STEPS = 32, 100_000, 500
MACHINES = {"desktop": "i7-2600-gtx-1050", "jtx2": "jetson-tx2", "jtx1": "jetson-tx1"}
MODELS = {
    "AlexNet": "alexnet?classes=10&size=32",
    "CIFAR10": "cifar10",
    "NiN": "nin",
    "ResNet": "resnet18?classes=10&size=32",
    "SqueezeNet": "squeezenet?classes=10&size=32",
}
MBPS = (1000.0, 100.0, 10.0)

Devices = tuple[str, ...]
Paths = Mapping[tuple[str, str], Route | MeasuredPath]
"""Bandwidth and latency from one device to another."""


class ClusterCost(NamedTuple):
    """Seconds and watts of a cluster's whole training, or of a step."""

    time_s: float
    power_w: float

    def of(self, goal: str) -> float:
        """What a goal minimises."""
        values = {"time": 1.0, "power": self.power_w / self.time_s, "energy": self.power_w}
        return self.time_s * values.get(goal, self.power_w * self.time_s)


def machines(mbps: float) -> Cluster:
    """The paper's three machines at a bandwidth."""
    nodes = {
        name: Node(tier="edge", hardware=hardware, source=Source(samples=50_000)) for name, hardware in MACHINES.items()
    }
    links = tuple(Link(between=pair, bandwidth_bps=mbps * 1e6) for pair in combinations(MACHINES, 2))
    return fill_hardware_defaults(Cluster(nodes=nodes, links=links))


def clusters() -> list[Devices]:
    """The seven clusters."""
    return [members for many in (1, 2, 3) for members in combinations(MACHINES, many)]


def beside_desktop(table: Measurements, device: str) -> ClusterCost:
    """Seconds and watts of a device's step while the desktop has the parameter server, by equations (2) and (3)."""
    alone = table.devices[device]
    factors = alone.by_server.get("desktop", alone)
    return ClusterCost(alone.step_s * factors.time, alone.power_w * factors.power)


def forest(members: Devices, profile: Profile) -> Phase:
    """A whole chain on each member, with the parameter server on the first, which is the fastest."""
    last = len(profile.layers)
    return Phase(
        sync="async",
        server=members[0],
        sources=tuple(Feed(node=name, samples=BATCH, into=name) for name in members),
        instances=tuple(Instance(id=name, layers=(1, last), node=name) for name in members),
    )


class ClusterCase(NamedTuple):
    """A network at a bandwidth: what its pre-training measured, and what its clusters really cost."""

    mbps: float
    alone: dict[str, StandaloneDevice]
    builds_s: dict[str, float]
    paths: Paths
    parameter_bytes: float
    truth: dict[Devices, ClusterCost]
    how: dict[Devices, str]


class CaseSource(Protocol):
    """Where the costs of the cases come from."""

    how: str

    def cases(self, name: str) -> Iterator[ClusterCase]:
        """The cases of a network, one per bandwidth."""
        ...
