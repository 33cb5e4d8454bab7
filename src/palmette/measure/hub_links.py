"""The links of a cluster whose messages all pass a hub: one from each node to the hub, measured in both directions.

    hub  ▐── bytes ──▶▐                     an order that carries bytes
    node              ▐── bytes ──▶▐        and an answer that does

The hub is a relay of the cluster, so that a message between two workers takes two links, as it does in a run.
"""

from __future__ import annotations

import os
from time import monotonic

from palmette.measure.bandwidth import ROUND_TRIPS, MeasuredLink, measured_link
from palmette.runtime.engines.probes import Echo, Echoed, Prober
from palmette.spec.cluster import Cluster, Link, Node

RELAY = "hub"
_LATENCY_DIGITS = 6


def measure_hub_link(prober: Prober, node: str) -> MeasuredLink:
    """The way from a node to the hub and back, by real transfers on the worker's own connection.

    Raises:
        RunError: the worker is lost.
    """

    def round_trip_s(to_hub_bytes: int, to_node_bytes: int) -> float:
        request = Echo(payload=os.urandom(to_node_bytes), answer_bytes=to_hub_bytes)
        taken_s = []
        for _ in range(ROUND_TRIPS):
            began_s = monotonic()
            prober.ask({node: request}, Echoed)
            taken_s.append(monotonic() - began_s)
        return min(taken_s)

    return measured_link(round_trip_s)


def linked_to_hub(cluster: Cluster, found: dict[str, MeasuredLink]) -> Cluster:
    """The cluster with these links to its hub, instead of those between nodes that have one.

    The hub is the cluster's relay, which is added if there is none.
    """
    relay = next((name for name, node in cluster.nodes.items() if node.relay), RELAY)
    nodes = cluster.nodes if relay in cluster.nodes else {**cluster.nodes, relay: Node(tier="edge", relay=True)}
    kept = [link for link in cluster.links if not {*found, relay}.issuperset(link.between)]
    links = (*(_link(node, relay, way, cluster) for node, way in found.items()), *kept)
    return cluster.model_copy(update={"nodes": nodes, "links": links})


def _link(node: str, relay: str, way: MeasuredLink, cluster: Cluster) -> Link:
    before = [link for link in cluster.links if node in link.between]
    return Link(
        between=(node, relay),
        up_bps=float(round(way.up_bps)),
        down_bps=float(round(way.down_bps)),
        latency_s=round(way.latency_s, _LATENCY_DIGITS),
        energy_j_per_bit=before[0].energy_j_per_bit if len(before) == 1 else 0.0,
    )
