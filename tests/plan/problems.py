"""Small clusters and profiles, with round numbers that a person can add up."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.plan.hybrid import stages
from palmette.spec.cluster import Cluster, Limits, Link, Node, Power, Source
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.profile import Layer, Profile, Times

LITTLE = 0.1
"""Of a search's effort: enough where what holds does not depend on it."""
EFFORTS = ("EFFORT", "EFFORT_PER_NODE", "EFFORT_PER_SOURCE", "SMALL_EFFORT", "PIPELINE_EFFORT", "SIDE_BY_SIDE_EFFORT")


def search_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no option for it: ``compare`` and ``auto`` always search."""
    for name in EFFORTS:
        monkeypatch.setattr(stages, name, round(LITTLE**2 * getattr(stages, name)))


def node(tier: str, *, samples: int | None = None, private: bool = False, **more: Any) -> Node:
    """A node of 2 W idle and 10 W busy, with data if ``samples`` is given."""
    source = None if samples is None else Source(samples=samples, private=private)
    return Node(tier=tier, source=source, **{"power": Power(idle_w=2.0, busy_w=10.0)} | more)


def cpu(share: float) -> Limits:
    """A limit on the CPU alone."""
    return Limits(cpu_share=share)


def link(a: str, b: str, mbps: float = 8.0, latency_s: float = 0.0) -> Link:
    """A link; 8 Mbit/s carries a megabyte in a second."""
    return Link(between=(a, b), bandwidth_bps=mbps * 1e6, latency_s=latency_s)


def three_tiers(**changes: Node) -> Cluster:
    """Phone (owns 1000 samples), server and cloud in a row, 8 and 4 Mbit/s; ``changes`` replace nodes."""
    nodes = {"phone": node("device", samples=1000), "server": node("edge"), "cloud": node("cloud")}
    return Cluster(nodes=nodes | changes, links=(link("phone", "server"), link("server", "cloud", 4.0)))


def times(slowness: float, layers: int = 2) -> Times:
    """A node that needs ``slowness`` ms forward and twice that backward, a layer and a sample."""
    forward = (slowness * 1e-3,) * layers
    return Times(
        forward_s=forward,
        backward_s=tuple(2 * each for each in forward),
        update_s=(slowness * 1e-4,) * layers,
        forward_call_s=(slowness * 2e-4,) * layers,
        backward_call_s=(slowness * 4e-4,) * layers,
    )


def profile(layers: int = 2, /, **slowness: float) -> Profile:
    """A network of equal layers (1000 B of weights, 500 B of output, 10 kB of input) on nodes of these slownesses."""
    return Profile(
        model="tiny",
        input_bytes=10_000,
        layers=tuple(Layer(name=f"layer{k}", parameter_bytes=1000, output_bytes=500) for k in range(layers)),
        nodes={name: times(slow, layers) for name, slow in (slowness or THREE_SLOWNESSES).items()},
    )


def where_integers_help() -> tuple[Profile, Cluster]:
    """A phone, a server and a cloud where JALAD cuts between the last two, and beats all that sends no integers."""
    known = profile(4, phone=40.0, server=5.0, cloud=0.2)
    layers = tuple(each.model_copy(update={"output_bytes": 4000.0}) for each in known.layers)
    links = (link("phone", "server", 40.0), link("server", "cloud", 1.0))
    return known.model_copy(update={"layers": layers}), three_tiers().model_copy(update={"links": links})


def always_new(cluster: Cluster) -> Cluster:
    """The cluster with a phone whose samples cannot be kept."""
    phone = cluster.nodes["phone"]
    assert phone.source is not None
    stream = phone.model_copy(update={"source": phone.source.model_copy(update={"stream": True})})
    return cluster.model_copy(update={"nodes": {**cluster.nodes, "phone": stream}})


THREE_SLOWNESSES = {"phone": 40.0, "server": 5.0, "cloud": 1.0}


def goal(text: str = "time", **more: Any) -> Goal:
    """A goal as the command line reads it."""
    return Goal(weights=parse_weights(text), **more)
