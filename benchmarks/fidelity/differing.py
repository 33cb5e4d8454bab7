"""Cases in which prediction and reality differ on purpose: a testbed that shows no difference agrees by construction.

    python -m benchmarks.fidelity --differing

- Frozen weights: the profile assumes that all are trained, so fewer bytes pass and less is computed than predicted.
- Data smaller than the profile says: samples have half, or a quarter, of ``input_bytes``.
- A profile with wrong weights: replicas exchange fewer, or more, bytes than ``parameter_bytes`` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

MODEL = "lenet5"
# By at least so much must the measured iteration be off, in this direction.
LEAST = 0.15


class Differing(NamedTuple):
    """A case, and whether reality is shorter (-1), longer (1) or as predicted (0)."""

    name: str
    plan: Plan
    profile: Profile
    cluster: Cluster
    freeze: tuple[str, ...]
    expected: int

    def shown(self, error: float) -> bool:
        """Whether an error shows what differs."""
        return abs(error) < LEAST / 3 if self.expected == 0 else self.expected * error > LEAST


def two_nodes(bandwidth: str) -> Cluster:
    """A phone with data, and a server."""
    nodes = {
        "phone": {"tier": "device", "hardware": "raspberry-pi-4", "source": {"samples": 1500}},
        "server": {"tier": "edge", "hardware": "nuc-i3-7100u-1"},
    }
    links = [{"between": ["phone", "server"], "bandwidth": bandwidth, "latency": "2 ms"}]
    return fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))


def whole(node: str, samples: int) -> tuple[Phase, int]:
    """The whole network on one node."""
    instance = {"id": "A", "layers": (1, 7), "node": node, "into": None}
    sources = [{"node": "phone", "samples": samples, "into": "A"}]
    return Phase.model_validate({"sources": sources, "instances": [instance]}), samples


def replicas() -> tuple[Phase, int]:
    """The whole network on both nodes, whose gradients are averaged."""
    instances = [{"id": n, "layers": (1, 7), "node": n, "into": None} for n in ("server", "phone")]
    sources = [{"node": "phone", "samples": 24, "into": n} for n in ("server", "phone")]
    return Phase.model_validate({"sources": sources, "instances": instances}), 48


def differing_cases() -> Iterator[Differing]:
    """All of them, and one beside that differs in nothing."""
    right, slow, fast = profile_network(load_network(MODEL), two_nodes("5 Mbit/s"), []), "5 Mbit/s", "100 Mbit/s"

    def case(name: str, tree: tuple[Phase, int], expected: int, profile: Profile = right, **more: str) -> Differing:
        plan = Plan(model=MODEL, batch=tree[1], phases=(tree[0],))
        frozen = tuple(more[key] for key in more if key.startswith("freeze"))
        return Differing(name, plan, profile, two_nodes(more.get("at", slow)), frozen, expected)

    layers = right.layers
    light = right.model_copy(
        update={
            "layers": tuple(each.model_copy(update={"parameter_bytes": each.parameter_bytes / 4}) for each in layers)
        }
    )
    heavy = right.model_copy(
        update={
            "layers": tuple(each.model_copy(update={"parameter_bytes": each.parameter_bytes * 4}) for each in layers)
        }
    )
    yield case("nothing differs", replicas(), 0)
    yield case("frozen: no gradients are sent", replicas(), -1, freeze="fc*")
    yield case("frozen: less is computed", whole("phone", 256), -1, at=fast, freeze="conv*", freeze2="fc1*")
    yield case("samples of half the bytes", whole("server", 48), -1, _with_input(right, 2.0))
    yield case("samples of twice the bytes", whole("server", 48), 1, _with_input(right, 0.5))
    yield case("four times as many weights as the profile says", replicas(), 1, light)
    yield case("a quarter of the weights that the profile says", replicas(), -1, heavy)


def _with_input(profile: Profile, times: float) -> Profile:
    return profile.model_copy(update={"input_bytes": profile.input_bytes * times})
