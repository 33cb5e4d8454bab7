"""What is priced: a HierTrain-like tree on three nodes, and fleets whose replicas meet over one uplink.

phone ──▶ S[1..m_s]@phone ─────────────┐
phone ──▶ O1[1..m_s]@server ───────────┴▶ O2[m_s+1..m_l]@server ─┐
phone ──▶ L[1..m_l]@cloud ───────────────────────────────────────┴▶ O3[m_l+1..34]@server
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from palmette.spec.cluster import Cluster, Link, Node, Source
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Layer, Profile, Times
from palmette.spec.tree import Feed, Instance

LAYERS = 34
SAMPLES = {"S": 40, "O1": 40, "L": 48}
FLEETS = ("equal nodes", "random node speeds", "random link speeds")
WAYS = ("each", "each, ahead", "once", "once, ahead")


def profile(speeds: dict[str, float], layers: int = LAYERS) -> Profile:
    """A network whose layers take about a millisecond a sample at speed 1, in layers / speed."""

    def times(speed: float) -> Times:
        forward = tuple((1 + k % 3) * 1e-3 / speed for k in range(layers))
        return Times(
            forward_s=forward,
            backward_s=tuple(2 * each for each in forward),
            update_s=(1e-5 / speed,) * layers,
            forward_call_s=(1e-4 / speed,) * layers,
            backward_call_s=(2e-4 / speed,) * layers,
        )

    return Profile(
        model="bench",
        input_bytes=12288,
        layers=tuple(
            Layer(name=f"layer{k}", parameter_bytes=4000.0 + 100 * k, output_bytes=20000.0 - 500 * k)
            for k in range(layers)
        ),
        nodes={name: times(speed) for name, speed in speeds.items()},
    )


def three_tiers() -> tuple[Profile, Cluster]:
    """Phone, edge server and cloud in a row."""
    nodes = {
        "phone": Node(tier="device", source=Source(samples=50000)),
        "server": Node(tier="edge"),
        "cloud": Node(tier="cloud"),
    }
    links = (
        Link(between=("phone", "server"), bandwidth_bps=5e6, latency_s=2e-3),
        Link(between=("server", "cloud"), bandwidth_bps=3e6, latency_s=1e-2),
    )
    return profile({"phone": 1.0, "server": 5.0, "cloud": 60.0}), Cluster(nodes=nodes, links=links)


def hybrid(m_s: int, m_l: int) -> Phase:
    """The tree drawn above, for one pair of cuts."""
    instances = (
        Instance(id="O1", layers=(1, m_s), node="server", into="O2"),
        Instance(id="S", layers=(1, m_s), node="phone", into="O2"),
        Instance(id="L", layers=(1, m_l), node="cloud", into="O3"),
        Instance(id="O2", layers=(m_s + 1, m_l), node="server", into="O3"),
        Instance(id="O3", layers=(m_l + 1, LAYERS), node="server"),
    )
    return Phase(
        sources=tuple(Feed(node="phone", samples=many, into=name) for name, many in SAMPLES.items()),
        instances=instances,
    )


def all_cuts() -> list[Phase]:
    """The tree for every pair of cuts, in an order without a pattern."""
    cuts = list(itertools.combinations(range(1, LAYERS), 2))
    random.Random(0).shuffle(cuts)
    return [hybrid(*cut) for cut in cuts]


def delivered(phase: Phase, way: str) -> Phase:
    """A tree whose samples are delivered in one of ``WAYS``."""
    once, ahead = way.startswith("once"), way.endswith("ahead")
    feeds = tuple(feed.model_copy(update={"delivery": "once" if once else "each"}) for feed in phase.sources)
    return phase.model_copy(update={"sources": feeds, "ahead": ahead})


def plan() -> Plan:
    """The tree as a plan."""
    return Plan(model="bench", batch=sum(SAMPLES.values()), phases=(hybrid(8, 20),))


def fleet(kind: str, size: int) -> tuple[Profile, Cluster, Phase]:
    """Devices with a whole network each, behind one edge server; gradients meet in the cloud, over one uplink."""
    draw = random.Random(size)
    devices = [f"device{k}" for k in range(size)]

    def some(which: str, low: float, high: float) -> Iterator[float]:
        even: Callable[[], float] = (lambda: draw.uniform(low, high)) if kind == which else (lambda: high)
        return (even() for _ in devices)

    speeds = dict(zip(devices, some("random node speeds", 0.5, 1.0), strict=True))
    rates = dict(zip(devices, some("random link speeds", 1e6, 2e7), strict=True))
    cluster = Cluster(
        nodes={
            "cloud": Node(tier="cloud", source=Source(samples=1000)),
            "server": Node(tier="edge"),
            **{name: Node(tier="device", source=Source(samples=1000)) for name in devices},
        },
        links=(
            Link(between=("server", "cloud"), bandwidth_bps=5e6 * size),
            *(Link(between=(name, "server"), bandwidth_bps=rate) for name, rate in rates.items()),
        ),
    )
    hosts = ["cloud", *devices]
    phase = Phase(
        sources=tuple(Feed(node=name, samples=32, into=name) for name in hosts),
        instances=tuple(Instance(id=name, layers=(1, 8), node=name) for name in hosts),
    )
    return profile({"cloud": 50.0, **speeds}, layers=8), cluster, phase
