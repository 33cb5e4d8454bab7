"""Networks and clusters that planners are timed on: made by a seed, so that every run plans the same."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.evaluator import cases as evaluator_cases
from palmette.spec.cluster import Cluster, Link, Node, Power, Source, Tier
from palmette.spec.profile import Layer, Profile, Times

LAYERS = 34
# GFLOP/s in training, idle and busy watts: a small board, a small PC, a workstation with a GPU.
MACHINES: dict[Tier, tuple[float, float, float]] = {
    "device": (7.0, 1.4, 3.7),
    "edge": (60.0, 7.0, 22.0),
    "cloud": (5000.0, 90.0, 350.0),
}


def three_tiers(layers: int = LAYERS) -> tuple[Profile, Cluster]:
    """A device that owns the data, an edge server and a cloud server in a row: 5 and 3 Mbit/s."""
    nodes: dict[str, Tier] = {"device": "device", "edge": "edge", "cloud": "cloud"}
    links = (_link("device", "edge", 5.0), _link("edge", "cloud", 3.0))
    return network(nodes, layers), Cluster(nodes=_nodes(nodes, {"device"}), links=links)


def other_three_tiers() -> tuple[Profile, Cluster]:
    """The network and the nodes that the evaluator is timed on: with fixed parts of calls, and faster by far."""
    return evaluator_cases.three_tiers()


def fleet(
    sources: int, layers: int = LAYERS, seed: int = 1, *, devices: int = 40, edges: int = 8
) -> tuple[Profile, Cluster]:
    """Devices behind edge servers behind 2 cloud servers, 50 nodes; the first ``sources`` devices own data."""
    draw = random.Random(seed)
    nodes: dict[str, Tier] = {f"device{k}": "device" for k in range(devices)}
    nodes |= {f"edge{k}": "edge" for k in range(edges)} | {f"cloud{k}": "cloud" for k in range(2)}
    links = [_link(f"device{k}", f"edge{k % edges}", draw.uniform(2, 20)) for k in range(devices)]
    links += [_link(f"edge{e}", f"cloud{c}", draw.uniform(5, 50)) for e in range(edges) for c in range(2)]
    links.append(_link("cloud0", "cloud1", 1000.0))
    owners = {f"device{k}" for k in range(sources)}
    return network(nodes, layers, draw), Cluster(nodes=_nodes(nodes, owners), links=tuple(links))


def three_tier_worlds() -> dict[str, tuple[Profile, Cluster, dict[str, Any]]]:
    """Three tiers in 15 worlds, with options of ``plan``: samples that may be kept or not, over 1 and 20 epochs."""
    found = {}
    for name, (known, cluster) in {
        "34 layers": three_tiers(),
        "34 layers, fixed parts of calls": other_three_tiers(),
        "10 layers": three_tiers(10),
    }.items():
        found[f"{name}, 1 epoch"] = (known, cluster, {"epochs": 1})
        found[f"{name}, 20 epochs"] = (known, cluster, {"epochs": 20})
        found[f"{name}, resent"] = (known, cluster, {"epochs": 20, "resend": True})
        for kind in ("private", "stream"):
            found[f"{name}, {kind}"] = (known, _with_sources(cluster, {kind: True}), {"epochs": 20})
    return found


def _with_sources(cluster: Cluster, changes: dict[str, bool]) -> Cluster:
    """The cluster with other samples at those nodes that own some."""
    nodes = {
        name: each.model_copy(update={"source": each.source.model_copy(update=changes)}) if each.source else each
        for name, each in cluster.nodes.items()
    }
    return cluster.model_copy(update={"nodes": nodes})


def network(nodes: dict[str, Tier], layers: int, draw: random.Random | None = None) -> Profile:
    """A residual-like network: outputs shrink and weights grow with depth, 64×64 images in, FLOPs about equal."""
    sizes = [
        Layer(
            name=f"block{k}",
            parameter_bytes=40e3 * 4 ** (4 * k // layers),
            output_bytes=262_144 / 2 ** (4 * k // layers),
            flops=7e6,
        )
        for k in range(layers)
    ]
    return Profile(
        model="resnet-like",
        input_bytes=49_152,
        layers=tuple(sizes),
        nodes={name: _times(tier, sizes, draw.uniform(0.5, 1.5) if draw else 1.0) for name, tier in nodes.items()},
    )


def _times(tier: Tier, layers: list[Layer], speed: float) -> Times:
    rate = MACHINES[tier][0] * 1e9 * speed
    forward = tuple(layer.flops / rate for layer in layers)
    update = tuple(layer.parameter_bytes / rate for layer in layers)
    return Times(forward_s=forward, backward_s=tuple(2 * each for each in forward), update_s=update)


def _nodes(nodes: dict[str, Tier], owners: set[str]) -> dict[str, Node]:
    return {
        name: Node(
            tier=tier,
            power=Power(idle_w=MACHINES[tier][1], busy_w=MACHINES[tier][2]),
            source=Source(samples=1000) if name in owners else None,
        )
        for name, tier in nodes.items()
    }


def _link(a: str, b: str, mbps: float) -> Link:
    return Link(between=(a, b), bandwidth_bps=mbps * 1e6, latency_s=0.002, energy_j_per_bit=90e-9)
