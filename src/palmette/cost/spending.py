"""What nodes spend beside time and energy: money by the hour, and the carbon of their electricity.

A node is paid for from the beginning to the end of whatever it takes part in, idle or not; a node without a price costs
nothing. What it emits is its energy, that of what it sends included, times the carbon intensity of its electricity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from palmette.spec.cluster import Cluster

SECONDS_PER_HOUR = 3600.0
JOULES_PER_KWH = 3.6e6


def price_per_s(cluster: Cluster, node: str) -> float:
    """Money that a node costs in a second."""
    price = cluster.nodes[node].price
    return 0.0 if price is None else price.per_hour / SECONDS_PER_HOUR


def carbon_g_per_j(cluster: Cluster, node: str) -> float | None:
    """Grams that a joule of a node emits; None where that is not known."""
    found = cluster.carbon_of(node)
    return None if found is None else found / JOULES_PER_KWH


def money(cluster: Cluster, nodes: Iterable[str], time_s: float) -> float | None:
    """What nodes cost over ``time_s``; None where no node of the cluster has a price."""
    return None if cluster.currency is None else time_s * sum(price_per_s(cluster, node) for node in nodes)


def carbon_g(cluster: Cluster, energy_j: Mapping[str, float | None]) -> float | None:
    """Grams that nodes emit, from the joules of each; None where those or the intensity of one are not known."""
    total_g = 0.0
    for node, joules in energy_j.items():
        intensity = carbon_g_per_j(cluster, node)
        if joules is None or intensity is None:
            return None
        total_g += joules * intensity
    return total_g
