"""Measurements on the hosts of a Ray cluster: layer times, build times, and the links between them."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.measure.bandwidth import TransferEnd, fastest_round_trip_s
from palmette.measure.build_time import BuildTime, measure_build_time
from palmette.measure.compute_settings import node_settings
from palmette.measure.profiling import measure_times_here
from palmette.runtime.options import Precision
from palmette.spec.cluster import Cluster
from palmette.spec.profile import Times


def measure_times_on_hosts(
    model: str,
    cluster: Cluster,
    measured_on: Sequence[str],
    input_shape: tuple[int, ...] | None,
    variants: Sequence[float] = (),
    *,
    freeze: Sequence[str] = (),
    precision: Precision | None = None,
) -> dict[str, dict[float, Times]]:
    """The times of a network's layers on each node's host, by the fraction of parameters removed.

    A node with other times (hardware of the catalogue, ``host: local``, or one in ``measured_on``) needs no host. Each
    host computes as its node's worker does: with the same threads, device and precision.

    Raises:
        InputError: Ray or its cluster is missing, a node has no host, or the network cannot be loaded there.
        RunError: a host is lost meanwhile.
    """
    from palmette.runtime.engines.ray.hosts import Hosts

    others = [name for name in cluster.nodes if name not in measured_on]
    free = [name for name in others if cluster.nodes[name].hardware or cluster.nodes[name].host == "local"]
    hosts = Hosts([name for name in others if name not in free], free)
    asked = (model, input_shape, tuple(variants), tuple(freeze))
    settings = {name: node_settings(cluster.nodes[name], precision, real_host=True) for name in hosts.addresses}
    return hosts.together(measure_times_here, {name: (*asked, each) for name, each in settings.items()})


def measure_build_times_on_hosts(
    model: str, cluster: Cluster, input_shape: tuple[int, ...] | None, samples: int
) -> dict[str, BuildTime]:
    """The time until each host can train.

    Raises:
        InputError: Ray or its cluster is missing, a node has no host, or the network cannot be loaded there.
        RunError: a host is lost meanwhile.
    """
    from palmette.runtime.engines.ray.hosts import Hosts

    nodes = list(cluster.nodes)
    return Hosts(nodes).each(nodes, measure_build_time, model, input_shape, samples)


def transfer_on_hosts(one: TransferEnd, two: TransferEnd) -> float:
    """The fastest round trip between two hosts.

    Raises:
        RunError: a host is lost, or nothing came through.
    """
    from palmette.runtime.engines.ray.hosts import Hosts

    found = Hosts([one.node, two.node]).together(fastest_round_trip_s, {one.node: [one], two.node: [two]})
    best_s: float = found[one.node]
    return best_s
