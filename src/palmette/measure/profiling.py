"""Profiles a network on all nodes of a cluster: measured where this machine is the node, else predicted."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from torch import nn

from palmette.compress.networks import network_origin, prune_network
from palmette.errors import ArgumentFault, Fault, InputError, expected_name
from palmette.measure.call_time_fit import CallTime
from palmette.measure.coding_time import measure_coding_time, predict_coding_time, with_coding
from palmette.measure.compute_settings import ComputeSettings, node_settings
from palmette.measure.contexts import Progress, no_progress
from palmette.measure.decode_time import measure_decode_time, predict_decode_time, with_decoding
from palmette.measure.layer_sizes import input_bytes, layer_sizes, layer_ties
from palmette.measure.layer_times import measure_layer_times
from palmette.measure.roofline import roofline_times
from palmette.measure.typical_length import at_typical_length, layer_sizes_of_lengths, length_notes
from palmette.runtime.devices import is_usable
from palmette.runtime.options import Precision
from palmette.spec.cluster import HERE, Cluster
from palmette.spec.plan import InputAs, known_input_as
from palmette.spec.profile import CodingSeconds, Profile, Table, Times
from palmette.zoo.capture import notes
from palmette.zoo.data import DataSplit, load_data, recipe_data
from palmette.zoo.freezing import frozen_network
from palmette.zoo.hardware import Hardware, hardware
from palmette.zoo.models import Network, load_network
from palmette.zoo.recipes.loading import recipe_name
from palmette.zoo.recipes.recipe import Recipe

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
    samples: DataSplit | None = None,
    precision: Precision | None = None,
) -> Profile:
    """Bytes, FLOPs and seconds of each layer on each node.

    This machine is measured for the nodes in ``measured_on`` and those with ``host: local``, once for all with as many
    threads and the same device; the others are predicted from the hardware that they name. ``progress`` gets the
    current layer and the share that is done.
    ``elsewhere`` are times that were measured on the nodes themselves.
    ``variants`` are fractions of the parameters to remove: the pruned networks are profiled the same way.
    With ``samples`` the profile has the size of a stored sample, and the first layer's times include decoding it. That
    is measured on this machine, also for nodes that were measured ``elsewhere``: no sample is sent to them.
    ``precision`` is that in which layers are measured, if not that of the weights; predictions know no other.

    Raises:
        InputError: a node is unknown, or neither measured nor of known hardware, or the network fails in training, or
            cannot be pruned that far, or a sample cannot be decoded.
    """
    here = {
        name: node_settings(cluster.nodes[name], precision)
        for name in nodes_here(cluster, measured_on)
        if name not in elsewhere
    }
    machines = {
        name: hardware(node.hardware)
        for name in cluster.computing
        if name not in here and name not in elsewhere and (node := cluster.nodes[name]).hardware is not None
    }
    require_times(cluster, {*here, *machines, *elsewhere})
    smaller = prune_networks(network, variants)
    decoding = None if samples is None else _decode_times(cluster, machines, samples, network, progress)
    coding = _coding_times(cluster, machines, progress)

    def table(fraction: float, each: Network, prune_s: float | None = None) -> Table:
        known = {name: times[fraction] for name, times in elsewhere.items()}
        found = _table(each, here, machines, known, progress, precision=precision)
        nodes = found.nodes | {name: _with_pruning(found.nodes[name], prune_s) for name in here}
        if decoding is not None:
            nodes = {name: with_decoding(times, decoding[name]) for name, times in nodes.items()}
        nodes = {name: with_coding(times, coding[name]) for name, times in nodes.items()}
        return Table(layers=found.layers, nodes={name: nodes[name] for name in cluster.computing}, ties=found.ties)

    whole = table(0.0, network)
    return Profile(
        model=network.name,
        input_bytes=input_bytes(at_typical_length(network)),
        sample_bytes=None if samples is None else samples.sample_bytes,
        precision=precision,
        layers=whole.layers,
        nodes=whole.nodes,
        ties=whole.ties,
        notes=(*notes(network.layers), *length_notes(network), *_precision_notes(machines, precision)),
        variants={str(fraction): table(fraction, *each) for fraction, each in smaller.items()},
    )


def _precision_notes(machines: Mapping[str, Hardware], precision: Precision | None) -> list[str]:
    if precision is None or not machines:
        return []
    return [f"{', '.join(machines)}: predicted for float32, not {precision}: what that changes there was not measured"]


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
    here: Mapping[str, ComputeSettings],
    machines: Mapping[str, Hardware],
    known: Mapping[str, Times],
    progress: Progress,
    *,
    precision: Precision | None,
) -> Table:
    """The layers of one network, and their times on nodes: measured here, predicted, or already known."""
    layers, network = layer_sizes_of_lengths(network, progress, precision), at_typical_length(network)
    taken = input_bytes(network)
    measured = {each: measure_layer_times(network, layers, progress, each) for each in dict.fromkeys(here.values())}
    nodes = {**known, **{name: measured[each] for name, each in here.items()}}
    nodes |= {name: roofline_times(machine, layers, taken) for name, machine in machines.items()}
    return Table(layers=layers, nodes=nodes, ties=layer_ties(network))


def _decode_times(
    cluster: Cluster, machines: Mapping[str, Hardware], samples: DataSplit, network: Network, progress: Progress
) -> dict[str, CallTime]:
    """The time of decoding on each node: predicted for hardware of the catalogue, otherwise as on this machine."""
    progress("decoding", 0.0)
    here = measure_decode_time(samples, network.dtype)
    predicted = {name: predict_decode_time(machine, here) for name, machine in machines.items()}
    return dict.fromkeys(cluster.computing, here) | predicted


def _coding_times(cluster: Cluster, machines: Mapping[str, Hardware], progress: Progress) -> dict[str, CodingSeconds]:
    """The times of codecs on each node: predicted for hardware of the catalogue, otherwise as on this machine."""
    predicted = {name: predict_coding_time(machine) for name, machine in machines.items()}
    if len(predicted) == len(cluster.computing):
        return predicted
    progress("coding", 0.0)
    return dict.fromkeys(cluster.computing, measure_coding_time()) | predicted


def measure_times_here(
    model: str,
    input_shape: tuple[int, ...] | None,
    variants: Sequence[float],
    freeze: Sequence[str],
    settings: ComputeSettings,
) -> dict[float, Times]:
    """The times on this machine of a network's layers, and of its pruned variants, by the fraction removed.

    Raises:
        InputError: the network cannot be loaded, cannot be pruned that far, or fails in training.
    """
    network = frozen_network(load_network(model, input_shape, seed=0), freeze)
    found = {0.0: _measure_here(network, settings)}
    for fraction, (smaller, prune_s) in prune_networks(network, variants).items():
        found[fraction] = _with_pruning(_measure_here(smaller, settings), prune_s)
    return found


def _measure_here(network: Network, settings: ComputeSettings) -> Times:
    network = at_typical_length(network)
    sizes = layer_sizes(network, no_progress, settings.precision)
    return measure_layer_times(network, sizes, no_progress, settings)


def _with_pruning(times: Times, prune_s: float | None) -> Times:
    return times.model_copy(update={"prune_s": prune_s})


def recipe_data_of(model: str | nn.Module | Recipe) -> str | Recipe | None:
    """The recipe that a model is, for its data; None where it is none.

    Raises:
        InputError: its name cannot be imported.
    """
    if isinstance(model, nn.Module):
        return None
    return model if isinstance(model, Recipe) else recipe_name(model)


def load_samples(network: Network, data: str | Recipe | None, input_as: InputAs) -> DataSplit | None:
    """The samples to train on, for a profile of how they are stored; None where they are taken as tensors.

    Raises:
        InputError: there is no such data, it does not fit the network, or ``input_as`` is unknown.
    """
    as_tensor = known_input_as(input_as) == "tensor"
    if data is None or as_tensor:
        return None
    if isinstance(data, Recipe):
        return recipe_data(data, network.name, network.input_shape).train
    return load_data(data, network.input_shape).train


def nodes_here(cluster: Cluster, measured_on: Sequence[str]) -> list[str]:
    """The nodes that are measured on this machine.

    Raises:
        InputError: one is not a node of the cluster, or trains on a device that cannot be measured here.
    """
    known = cluster.computing
    unknown = [name for name in measured_on if name not in known]
    if unknown:
        raise InputError(ArgumentFault("on", name, expected_name(name, "node", known)) for name in unknown)
    here = [name for name in known if name in measured_on or cluster.nodes[name].host == HERE]
    expected = "this machine's torch has no such device; expected cpu, or hardware: … and neither host: local nor --on"
    wrong = [name for name in here if not is_usable(cluster.nodes[name].device)]
    if wrong:
        raise InputError(Fault(f"nodes.{name}.device", cluster.nodes[name].device, expected) for name in wrong)
    return here


def require_times(cluster: Cluster, covered: Collection[str]) -> None:
    """Refuse a cluster with nodes without times."""
    left = [name for name in cluster.computing if name not in covered]
    if left:
        expected = "give it hardware: … or host: local, or measure it with --on {}"
        raise InputError(Fault(f"nodes.{name}", "no times", expected.format(name)) for name in left)
