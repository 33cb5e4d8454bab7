"""The data of a run: what its sources' nodes name, or what all of them share.

Where the sources name data, ``--data`` is what the network is evaluated on; without it, that is the held-out part
of all their data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from palmette.errors import Fault, InputError
from palmette.runtime.data.shards import data_shards, own_data, source_nodes
from palmette.runtime.training.loop import refuse_unfit
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.zoo.data import DataSet, concatenate, load_data
from palmette.zoo.models import Network

COMMON = "digits"
"""The data of sources that name none, unless the user names another."""


@dataclass(frozen=True)
class RunData:
    """``evaluated``: what the network is evaluated on and, where sources have no data of their ``own``, trained on."""

    evaluated: DataSet
    own: dict[str, DataSet] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """Samples to train on, by the data's name."""
        return {name: len(each.train) for name, each in {self.evaluated.name: self.evaluated, **self.own}.items()}


def common_name(phases: Sequence[Phase], cluster: Cluster, requested: str | None) -> str | None:
    """The run's data by name: as requested, else a default; None where sources have their own and nothing is requested.

    Raises:
        InputError: some sources name data, and others do not.
    """
    return requested if requested is not None or own_data(_nodes(phases), cluster) else COMMON


def find_data(phases: Sequence[Phase], cluster: Cluster, name: str | None, network: Network) -> RunData:
    """The data of phases that may come, by the name of the run's data; all of it fits the network.

    Raises:
        InputError: it cannot be had, or does not fit: says whose; or some sources name data, and others do not.
    """
    own: dict[str, DataSet] = {}
    for node, each in own_data(_nodes(phases), cluster).items():
        if each not in own:
            own[each] = _of_node(node, each, network)
    if name is None:
        return RunData(concatenate(list(own.values())), own)
    common = load_data(name, network.input_shape)
    refuse_unfit(network, common)
    return RunData(common, own)


def _nodes(phases: Sequence[Phase]) -> list[str]:
    """The nodes whose data phases use: those of sources, and those that distill a smaller model."""
    nodes = [node for phase in phases for node in source_nodes(phase)]
    for before, after in permutations(phases, 2):
        if after.compress == "distill" and before.pruning < after.pruning:
            nodes.append(before.meeting_node)
    return list(dict.fromkeys(nodes))


def _of_node(node: str, name: str, network: Network) -> DataSet:
    where = f"nodes.{node}.source.data"
    try:
        found = load_data(name, network.input_shape)
    except InputError as error:
        raise InputError(replace(fault, field=where) for fault in error.faults) from None
    refuse_unfit(network, found, where)
    return found


def refuse_few(phases: Iterable[Phase], cluster: Cluster, data: RunData) -> None:
    """Refuse data of which a source under ``epoch`` or ``async`` would own nothing.

    Raises:
        InputError: names the source.
    """
    wrong = [
        Fault(
            f"phases[{k}].sources[{share.number}]",
            share.data,
            f"none of the {data.sizes[share.data]} samples is left for this source",
        )
        for k, phase in enumerate(phases)
        if not phase.sync_kind.one_model
        for share in data_shards(phase, cluster, data.evaluated.name)
        if not share.size(data.sizes[share.data])
    ]
    if wrong:
        raise InputError(wrong)
