"""The data of a run: what its sources' nodes name, or what all of them share.

Where the sources name data, ``--data`` is what the network is evaluated on; without it, that is the held-out part
of all their data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from palmette.control.run.request import Request
from palmette.control.run.validation import refuse_unrunnable
from palmette.cost.delivery import MOST_LABEL_BYTES, keeps_samples
from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.cost.kept_outputs import keeps_outputs
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.data.epoch_length import EpochData
from palmette.runtime.data.shards import data_shards, own_data, source_nodes
from palmette.runtime.data.streams import StreamLength, shortest_stream
from palmette.runtime.sync.registry import sync_method
from palmette.spec.cluster import Cluster, Source
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.data import DataSet, concatenate, load_data, recipe_data
from palmette.zoo.data.odd_samples import refuse_odd_samples
from palmette.zoo.models import UNNAMED, Network
from palmette.zoo.recipes.recipe import Recipe
from palmette.zoo.user_code import located

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


def find_data(
    phases: Sequence[Phase], cluster: Cluster, name: str | None, network: Network, recipe: Recipe | None = None
) -> RunData:
    """The data of phases that may come, by the name of the run's data or of its recipe; all of it fits the network.

    Raises:
        InputError: it cannot be had, or does not fit: says whose; or some sources name data, and others do not.
    """
    own: dict[str, DataSet] = {}
    for node, each in own_data(_nodes(phases), cluster).items():
        if each not in own:
            own[each] = _of_node(node, each, network)
    if name is None:
        return RunData(concatenate(list(own.values())), own)
    with located(*(None, "") if recipe is None else (recipe.data, recipe.made_at)):
        if recipe is not None and name == UNNAMED:
            common = recipe_data(recipe, name, network.input_shape)
        else:
            common = load_data(name, network.input_shape)
        refuse_unfit(network, common)
        refuse_odd_samples(common)
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


def refuse_unfit(network: Network, data: DataSet, field: str = "--data") -> None:
    """Refuse data with more classes than the network; ``field`` is where the user named it.

    Raises:
        InputError: they do not fit.
    """
    if data.classes is not None and data.classes > network.classes:
        expected = f"it has {data.classes} classes, but {network.name} has {network.classes}"
        raise InputError(Fault(field, data.name, f"{expected}; expected data with no more"))


def with_sample_bytes(profile: Profile, cluster: Cluster, data: RunData) -> tuple[Profile, Cluster]:
    """Profile and cluster with the size of stored samples as the data has it, where neither says it."""
    if profile.sample_bytes is not None:
        return profile, cluster
    sizes = {name: each.train.sample_bytes for name, each in data.own.items()}

    def sized(source: Source) -> Source:
        known = source.sample_bytes or sizes.get(source.data or "")
        return source.model_copy(update={"sample_bytes": known})

    usual = profile.model_copy(update={"sample_bytes": data.evaluated.train.sample_bytes})
    return usual, _with_sources(cluster, sized)


def refuse_overfull(plan: Plan, prices: Evaluator, data: RunData, label_bytes: int) -> None:
    """Refuse a plan whose nodes would have to keep more of the data, as it really is, than they may.

    Whatever files say of their size, samples count as they are stored, with labels of so many bytes.

    Raises:
        InputError: holds a fault for each.
    """
    shared = [node.source.samples for node in prices.cluster.nodes.values() if node.source and not node.source.data]

    more_bytes = max(0, label_bytes - MOST_LABEL_BYTES)

    def counted(source: Source) -> Source:
        found = data.evaluated if source.data is None else data.own.get(source.data)
        if found is None:
            return source  # of no use to the plan
        part = source.samples / sum(shared) if source.data is None else 1.0
        samples, size_bytes = max(1, round(len(found.train) * part)), found.train.sample_bytes + more_bytes
        return source.model_copy(update={"samples": samples, "sample_bytes": size_bytes})

    if any(keeps_samples(phase) or keeps_outputs(phase) for phase in plan.phases):
        cluster = _with_sources(prices.cluster, counted)
        refuse_unrunnable(plan, evaluator(prices.profile, cluster, prices.optimizer))


def _with_sources(cluster: Cluster, changed: Callable[[Source], Source]) -> Cluster:
    nodes = {
        name: node if node.source is None else node.model_copy(update={"source": changed(node.source)})
        for name, node in cluster.nodes.items()
    }
    return cluster.model_copy(update={"nodes": nodes})


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
        if not phase.sync_kind.common_batch
        for share in data_shards(phase, cluster, data.evaluated.name)
        if not share.size(data.sizes[share.data])
    ]
    if wrong:
        raise InputError(wrong)


def refuse_exhausted(plan: Plan, prices: Evaluator, data: RunData, request: Request) -> None:
    """Refuse a run that is longer than a stream of the plan lasts, whose samples are used once each.

    Raises:
        InputError: says how many iterations it lasts.
    """
    known, first = EpochData(data.evaluated.name, data.sizes), 0
    for k, phase in enumerate(plan.phases):
        epoch = sync_method(phase).epoch_iterations(phase, prices, known)
        wanted = request.iterations or (request.epochs or phase.epochs or 1) * epoch
        stream = shortest_stream(phase, prices, known, first)
        if stream is not None and wanted > stream.iterations:
            raise InputError(_longer_than(stream, first + stream.iterations, request, k, phase))
        first += wanted


def _longer_than(stream: StreamLength, iterations: int, request: Request, k: int, phase: Phase) -> Fault:
    once = f"the stream of {stream.node} has {stream.samples} samples, each used once"
    expected = f"{once}; expected at most {iterations} iterations in all"
    if request.iterations is not None:
        return ArgumentFault("iterations", request.iterations, expected)
    if request.epochs is not None:
        return ArgumentFault("epochs", request.epochs, expected)
    return Fault(f"phases[{k}].epochs", phase.epochs, expected)
