"""A network on all nodes of a cluster: measured where this machine stands for the node, else predicted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from palmette.errors import Fault, InputError, expected_name
from palmette.measure.conditions import Progress, silent
from palmette.measure.layers import input_bytes, layer_sizes
from palmette.measure.modelled import modelled_times
from palmette.measure.times import measured_times
from palmette.spec.cluster import Cluster
from palmette.spec.profile import Profile, Times
from palmette.zoo.hardware import hardware
from palmette.zoo.models import Network, load_network


def profile_network(
    network: Network,
    cluster: Cluster,
    measured_on: Sequence[str] = (),
    progress: Progress = silent,
    elsewhere: Mapping[str, Times] = MappingProxyType({}),
) -> Profile:
    """What each layer costs on each node, in bytes, FLOPs and seconds.

    This machine is measured, once, for the nodes in ``measured_on`` and those with ``host: local``; the others are
    predicted from the hardware that they name. ``progress`` is told the layer at hand and the share that is done.
    ``elsewhere`` are times that were measured on the nodes themselves.

    Raises:
        InputError: a node is unknown, or neither measured nor of known hardware, or the network fails in training.
    """
    here = [name for name in nodes_here(cluster, measured_on) if name not in elsewhere]
    machines = {
        name: hardware(node.hardware)
        for name, node in cluster.nodes.items()
        if name not in here and name not in elsewhere and node.hardware is not None
    }
    require_times(cluster, {*here, *machines, *elsewhere})
    layers, taken = layer_sizes(network, progress), input_bytes(network)
    nodes = dict(elsewhere)
    if here:
        nodes |= dict.fromkeys(here, measured_times(network, layers, progress))
    nodes |= {name: modelled_times(machine, layers, taken) for name, machine in machines.items()}
    ordered = {name: nodes[name] for name in cluster.nodes}
    return Profile(model=network.name, input_bytes=taken, layers=layers, nodes=ordered)


def times_here(model: str, input_shape: tuple[int, ...] | None) -> Times:
    """The times of a network's layers on this machine.

    Raises:
        InputError: the network cannot be had, or fails in training.
    """
    network = load_network(model, input_shape, seed=0)
    return measured_times(network, layer_sizes(network, silent), silent)


def nodes_here(cluster: Cluster, measured_on: Sequence[str]) -> list[str]:
    """The nodes that this machine stands for.

    Raises:
        InputError: one is not a node of the cluster, or trains on what cannot be measured here.
    """
    known = list(cluster.nodes)
    unknown = [name for name in measured_on if name not in cluster.nodes]
    if unknown:
        raise InputError(Fault("--on", name, expected_name(name, "node", known)) for name in unknown)
    here = [name for name, node in cluster.nodes.items() if name in measured_on or node.host == "local"]
    expected = "only a CPU is measured; expected cpu, or hardware: … of the catalogue and neither host: local nor --on"
    wrong = [name for name in here if cluster.nodes[name].device != "cpu"]
    if wrong:
        raise InputError(Fault(f"nodes.{name}.device", cluster.nodes[name].device, expected) for name in wrong)
    return here


def require_times(cluster: Cluster, covered: Collection[str]) -> None:
    """Refuse a cluster with nodes that nothing is known about."""
    left = [name for name in cluster.nodes if name not in covered]
    if left:
        expected = "give it hardware: … or host: local, or measure it with --on {}"
        raise InputError(Fault(f"nodes.{name}", "no times", expected.format(name)) for name in left)
