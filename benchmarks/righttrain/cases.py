"""Fleets that RightTrain is timed on: made by a seed, so that every run plans the same."""

from __future__ import annotations

import random

from benchmarks.planner.cases import MACHINES, network
from palmette.spec.cluster import Cluster, Link, Node, Power, Source, Tier
from palmette.spec.learning import Learning
from palmette.spec.profile import Profile

CURVE = Learning(floor=0.05, scale=2.2, epoch_exponent=0.6, data_exponent=0.4, replica_exponent=0.05)


def fleet(nodes: int, sources: int, layers: int, seed: int = 1) -> tuple[Profile, Cluster]:
    """Devices behind edge servers behind cloud servers, 16 : 3 : 1; the first ``sources`` devices own data."""
    draw = random.Random(seed)
    clouds, edges = max(1, nodes // 20), max(1, 3 * nodes // 20)
    tiers: dict[str, Tier] = {f"device{k}": "device" for k in range(nodes - edges - clouds)}
    tiers |= {f"edge{k}": "edge" for k in range(edges)} | {f"cloud{k}": "cloud" for k in range(clouds)}
    devices = nodes - edges - clouds
    links = [_link(f"device{k}", f"edge{k % edges}", draw.uniform(2, 20)) for k in range(devices)]
    links += [_link(f"edge{e}", f"cloud{c}", draw.uniform(5, 50)) for e in range(edges) for c in range(clouds)]
    links += [_link("cloud0", f"cloud{c}", 1000.0) for c in range(1, clouds)]
    owners = {f"device{k}" for k in range(sources)}
    members = {name: _node(tier, name in owners, draw) for name, tier in tiers.items()}
    return network(tiers, layers, draw), Cluster(nodes=members, links=tuple(links))


def _node(tier: Tier, owns: bool, draw: random.Random) -> Node:
    _, idle_w, busy_w = MACHINES[tier]
    return Node(
        tier=tier,
        power=Power(idle_w=idle_w, busy_w=busy_w, exponent=draw.choice([1.0, 2.0, 3.0])),
        source=Source(samples=draw.randint(500, 2000)) if owns else None,
    )


def _link(a: str, b: str, mbps: float) -> Link:
    return Link(between=(a, b), bandwidth_bps=mbps * 1e6, latency_s=0.002, energy_j_per_bit=90e-9)
