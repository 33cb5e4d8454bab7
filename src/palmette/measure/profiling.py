"""Profiles a network on all nodes of a cluster: measured where this machine is the node, else predicted."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from palmette.compress.networks import network_origin, prune_network
from palmette.errors import ArgumentFault, Fault, InputError, expected_name
from palmette.measure.contexts import Progress, no_progress
from palmette.measure.layer_sizes import input_bytes, layer_sizes
from palmette.measure.layer_times import measure_layer_times
from palmette.measure.roofline import roofline_times
from palmette.spec.cluster import Cluster
from palmette.spec.profile import Profile, Table, Times
from palmette.zoo.hardware import Hardware, hardware
from palmette.zoo.models import Network, load_network

RemoteTimes = Mapping[str, Mapping[float, Times]]
"""Times that were measured on nodes themselves, by the fraction of the parameters removed."""


def profile_network(
    network: Network,
    cluster: Cluster,
    measured_on: Sequence[str] = (),
    progress: Progress = no_progress,
    elsewhere: RemoteTimes = MappingProxyType({}),
    *,
    variants: Sequence[float] = (),
) -> Profile:
    """Bytes, FLOPs and seconds of each layer on each node.

    This machine is measured, once, for the nodes in ``measured_on`` and those with ``host: local``; the others are
    predicted from the hardware that they name. ``progress`` gets the current layer and the share that is done.
    ``elsewhere`` are times that were measured on the nodes themselves.
    ``variants`` are fractions of the parameters to remove: the pruned networks are profiled the same way.

    Raises:
        InputError: a node is unknown, or neither measured nor of known hardware, or the network fails in training, or
            cannot be pruned that far.
    """
    here = [name for name in nodes_here(cluster, measured_on) if name not in elsewhere]
    machines = {
        name: hardware(node.hardware)
        for name, node in cluster.nodes.items()
        if name not in here and name not in elsewhere and node.hardware is not None
    }
    require_times(cluster, {*here, *machines, *elsewhere})
    smaller = prune_networks(network, variants)

    def table(fraction: float, each: Network, prune_s: float | None = None) -> Table:
        known = {name: times[fraction] for name, times in elsewhere.items()}
        found = _table(each, here, machines, known, progress)
        nodes = found.nodes | {name: _with_pruning(found.nodes[name], prune_s) for name in here}
        return Table(layers=found.layers, nodes={name: nodes[name] for name in cluster.nodes})

    whole = table(0.0, network)
    return Profile(
        model=network.name,
        input_bytes=input_bytes(network),
        layers=whole.layers,
        nodes=whole.nodes,
        variants={str(fraction): table(fraction, *each) for fraction, each in smaller.items()},
    )


class PrunedNetwork(NamedTuple):
    """A pruned network, and the seconds that pruning took."""

    network: Network
    prune_s: float


def prune_networks(network: Network, fractions: Sequence[float]) -> dict[float, PrunedNetwork]:
    """The network without fractions of its parameters, each once, in order.

    Raises:
        InputError: one is 0 or no fraction, or the network cannot be pruned that far.
    """
    if not fractions:
        return {}
    origin = network_origin(network)
    wrong, found = [], dict[float, PrunedNetwork]()
    for fraction in sorted(set(fractions)):
        try:
            if fraction == 0:
                raise InputError(Fault("", fraction, "expected more than 0: that is the network itself"))
            began = time.perf_counter()
            smaller, _ = prune_network(network, fraction, origin=origin)
            found[fraction] = PrunedNetwork(smaller, time.perf_counter() - began)
        except InputError as error:
            wrong += [ArgumentFault("variants", fraction, fault.expected) for fault in error.faults]
    if wrong:
        raise InputError(wrong)
    return found


def _table(
    network: Network,
    here: Sequence[str],
    machines: Mapping[str, Hardware],
    known: Mapping[str, Times],
    progress: Progress,
) -> Table:
    """The layers of one network, and their times on nodes: measured here, predicted, or already known."""
    layers, taken = layer_sizes(network, progress), input_bytes(network)
    nodes = dict(known)
    if here:
        nodes |= dict.fromkeys(here, measure_layer_times(network, layers, progress))
    nodes |= {name: roofline_times(machine, layers, taken) for name, machine in machines.items()}
    return Table(layers=layers, nodes=nodes)


def measure_times_here(
    model: str, input_shape: tuple[int, ...] | None, variants: Sequence[float] = ()
) -> dict[float, Times]:
    """The times on this machine of a network's layers, and of its pruned variants, by the fraction removed.

    Raises:
        InputError: the network cannot be loaded, cannot be pruned that far, or fails in training.
    """
    network = load_network(model, input_shape, seed=0)
    found = {0.0: _measure_here(network)}
    for fraction, (smaller, prune_s) in prune_networks(network, variants).items():
        found[fraction] = _with_pruning(_measure_here(smaller), prune_s)
    return found


def _measure_here(network: Network) -> Times:
    return measure_layer_times(network, layer_sizes(network, no_progress), no_progress)


def _with_pruning(times: Times, prune_s: float | None) -> Times:
    return times.model_copy(update={"prune_s": prune_s})


def nodes_here(cluster: Cluster, measured_on: Sequence[str]) -> list[str]:
    """The nodes that are measured on this machine.

    Raises:
        InputError: one is not a node of the cluster, or trains on a device that cannot be measured here.
    """
    known = list(cluster.nodes)
    unknown = [name for name in measured_on if name not in cluster.nodes]
    if unknown:
        raise InputError(ArgumentFault("on", name, expected_name(name, "node", known)) for name in unknown)
    here = [name for name, node in cluster.nodes.items() if name in measured_on or node.host == "local"]
    expected = "only a CPU is measured; expected cpu, or hardware: … of the catalogue and neither host: local nor --on"
    wrong = [name for name in here if cluster.nodes[name].device != "cpu"]
    if wrong:
        raise InputError(Fault(f"nodes.{name}.device", cluster.nodes[name].device, expected) for name in wrong)
    return here


def require_times(cluster: Cluster, covered: Collection[str]) -> None:
    """Refuse a cluster with nodes without times."""
    left = [name for name in cluster.nodes if name not in covered]
    if left:
        expected = "give it hardware: … or host: local, or measure it with --on {}"
        raise InputError(Fault(f"nodes.{name}", "no times", expected.format(name)) for name in left)
