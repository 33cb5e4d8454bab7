"""From an order to a setup, on the worker's machine: from what is installed there and what its owner allows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import nn

from palmette.errors import RunError
from palmette.runtime.data.base import SampleSource
from palmette.runtime.data.kept_samples import SampleStore, file_name
from palmette.runtime.data.left_samples import delete_folder, delete_left, run_folder
from palmette.runtime.data.sources import DataDescription, ShardedData, StepData
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.engines.hub.limits import NO_LIMITS, WorkerLimits
from palmette.runtime.engines.hub.messages import (
    DeleteSamples,
    FetchKept,
    KeptRequest,
    OrderedBundles,
    OrderedCompressedImages,
    OrderedData,
    OrderedDecoder,
    OrderedFormat,
    OrderedImages,
    OrderedObjective,
    OrderedOwnDecoder,
    OrderedTensors,
    OrderedTransform,
    WorkOrder,
)
from palmette.runtime.options import Options, TrainedIterations
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.worker.commands import KeptDeleted, StateReply
from palmette.runtime.worker.kept_state import clear_kept, read_kept
from palmette.runtime.worker.setup import OwnedData, Setup, WorkerSide
from palmette.zoo.adapters import split_adapters
from palmette.zoo.capture import tied_weights
from palmette.zoo.casting import cast_floats
from palmette.zoo.data import load_data
from palmette.zoo.data.base import DataSplit, Decoder, LabelTree
from palmette.zoo.data.compressed import CompressedImageDecoder
from palmette.zoo.data.custom_bundles import BundleDecoder
from palmette.zoo.data.custom_decoder import CustomDecoder
from palmette.zoo.data.custom_tensors import TensorDecoder
from palmette.zoo.data.images import ImageDecoder
from palmette.zoo.data.item_format import ItemFormat
from palmette.zoo.data.registry import recipe_transform
from palmette.zoo.data.transformed import TransformDecoder
from palmette.zoo.freezing import frozen_network
from palmette.zoo.import_callable import import_callable
from palmette.zoo.lengths import SampleLengths
from palmette.zoo.models import Network, load_network
from palmette.zoo.recipes.loss import ClassificationLoss, found_loss
from palmette.zoo.recipes.objective import TrainingObjective, recipe_loss

Sides = Mapping[str, Callable[[Setup], WorkerSide]]
"""What makes a worker's side, by the names in orders."""


class SetupBuilder:
    """Builds setups of orders from what is allowed here, within limits; ``sides`` are all that a worker can do."""

    def __init__(
        self, allowed: AllowedNames, sides: Sides, folder: Path | None = None, limits: WorkerLimits = NO_LIMITS
    ) -> None:
        self._allowed, self._sides, self._folder = allowed, sides, folder or Path(tempfile.gettempdir())
        self.limits = limits
        self._lent: set[Path] = set()

    def built(self, order: WorkOrder, endpoint: Endpoint) -> Setup:
        """The setup that an order asks for.

        Raises:
            RunError: it names what is not allowed here, or does not fit what is installed.
            InputError: what it names cannot be had.
        """
        names = order.names
        if names.side not in self._sides:
            raise RunError(f"the engine asks for {names.side!r}, which this version does not know")
        self.limits.refuse_share(order.cpu_limit)
        options = self._options(order.options)
        network = self._network(order, options)
        return Setup(
            node=order.node,
            endpoint=endpoint,
            programs=order.programs,
            layers=_held(network, order),
            shapes=(network.input_shape, *(layer.output_shape for layer in network.layers)),
            input_dtype=network.dtype,
            inputs=network.inputs,
            input_names=network.input_names,
            lengths_vary=bool(network.varying),
            outputs=[layer.outputs for layer in network.layers],
            ties=tied_weights(network.layers),
            options=options,
            side=self._sides[names.side],
            objective=self._objective(order.objective),
            source=self._source(order),
            cpu_limit=order.cpu_limit,
            rests=self.limits.cpu_share < 1,
            device=order.device,
            threads=order.threads,
            profiled_precision=order.profiled_precision,
            rollback=order.rollback,
            optimizer=order.optimizer,
            store=self._store(order),
            names=names,
            kept_state=None if order.kept is None else self._kept(order.kept, order.node, fresh=True),
            evaluation=self._evaluation(order, options),
        )

    def _evaluation(self, order: WorkOrder, options: Options) -> OwnedData | None:
        """What this node may be asked to evaluate on: its own data, with a network that is made when it is asked."""
        owned = _owned_data(order) if order.source is not None else set()
        if len(owned) != 1:
            return None
        return OwnedData(partial(self._network, order, options), self._allowed.data_here(next(iter(owned))))

    def _store(self, order: WorkOrder) -> SampleStore:
        folder = run_folder(self._folder, order.samples) / file_name(order.node)
        if order.keep_samples:
            folder = self._folder / f"palmette-kept-samples-{order.samples}" / file_name(order.node)
        else:
            self._lent.add(folder)
        limits = [each for each in (order.storage_bytes, self.limits.storage_bytes) if each is not None]
        return SampleStore(folder, min(limits, default=None))

    def answer(self, asked: KeptRequest, node: str) -> StateReply | KeptDeleted:
        """Do what is asked with what a node has kept."""
        match asked:
            case FetchKept():
                return self._kept_state(asked, node)
            case DeleteSamples():
                delete_folder(run_folder(self._folder, asked.samples) / file_name(node))
                return KeptDeleted()

    def delete_left(self, node: str) -> None:
        """Delete what earlier workers of a node have left of samples, but for those that are to stay."""
        delete_left(self._folder, node)

    def delete_lent(self) -> None:
        """Delete the samples of all runs since this was made, but for those that are to stay."""
        for folder in self._lent:
            delete_folder(folder)

    def _kept_state(self, asked: FetchKept, node: str) -> StateReply:
        """The state that a node's worker kept when an engine was gone; empty where there is none."""
        try:
            weights, optimizer = read_kept(self._kept(asked.kept, node), asked.iterations, asked.patience_s)
        except (OSError, SafetensorError):
            weights, optimizer = {}, {}
        return StateReply(to_bytes(weights), to_bytes(optimizer))

    def forget_kept(self, name: str, node: str) -> None:
        """Remove what was kept of a run."""
        clear_kept(self._kept(name, node))

    def _kept(self, name: str, node: str, *, fresh: bool = False) -> Path:
        """A node's folder for what is kept of a run; a fresh one is empty."""
        folder = self._folder / f"palmette-kept-{name}-{file_name(node)}"
        if fresh:
            clear_kept(folder)
        return folder

    def _options(self, written: Mapping[str, Any]) -> Options:
        given = dict(written)
        for name in ("optimizer", "schedule"):
            if isinstance(given.get(name), str) and ":" in given[name]:
                self._allowed.refuse_code(given[name])
                given[name] = import_callable(given[name], name)
        try:
            span = TrainedIterations(**given.pop("span"))
            return Options(**given | {"freeze": tuple(given.get("freeze", ())), "span": span})
        except (TypeError, KeyError) as error:
            raise RunError(f"the engine's options are not those of this version: {error}") from None

    def _network(self, order: WorkOrder, options: Options) -> Network:
        names = order.names
        self._allowed.refuse_code(names.model)
        self._allowed.refuse_code(names.recipe)
        model, adapters = split_adapters(names.model)
        network = load_network(names.recipe or model, names.input_shape, adapters=adapters)
        network = frozen_network(network, options.freeze)
        for layer in network.layers:
            cast_floats(layer.module, getattr(torch, options.dtype))
        return _pruned(network, names.pruning) if names.pruning else network

    def _objective(self, ordered: OrderedObjective) -> TrainingObjective:
        labels = _format(ordered.labels)
        if ordered.recipe is None:
            return TrainingObjective(ClassificationLoss(ordered.per_sample), labels)
        self._allowed.refuse_code(ordered.recipe)
        loss = found_loss(ordered.recipe, partial(recipe_loss, ordered.recipe), ordered.per_sample)
        return TrainingObjective(loss, labels)

    def _source(self, order: WorkOrder) -> SampleSource | None:
        given = order.source
        if given is None:
            return None
        common: dict[str, Any] = {
            "input_shape": given.input_shape,
            "dtype": given.dtype,
            "seed": given.seed,
            "iterations": given.iterations,
        }
        owned = _owned_data(order)
        described = partial(self._described, owned=owned, shape=given.input_shape)
        if given.phase is not None:
            groups = [(group, described(each)) for group, each in given.groups]
            return StepData(phase=given.phase, groups=groups, **common)
        data = {name: described(each) for name, each in given.data.items()}
        return ShardedData(shares=given.shares or {}, data=data, **common)

    def _described(self, data: OrderedData, owned: set[str], shape: tuple[int, ...]) -> DataDescription:
        """What is known of a data set; with its samples, if this node owns some of them."""
        split: DataSplit | None = None
        if data.name in owned:
            split = load_data(self._allowed.data_here(data.name), shape).train
            if len(split) != data.samples:
                raise RunError(
                    f"data {data.name} has {len(split)} samples here, and {data.samples} where the run began"
                )
        return DataDescription(data.name, data.samples, self._decoder(data.decoder), split, _lengths(data))

    def _decoder(self, ordered: OrderedDecoder) -> Decoder:
        match ordered:
            case OrderedImages():
                return ImageDecoder(ordered.stored_shape, ordered.shape, ordered.scale, ordered.shift)
            case OrderedCompressedImages():
                return CompressedImageDecoder(ordered.shape)
            case OrderedTensors():
                return TensorDecoder(ordered.shape, ordered.dtype, ordered.stored_dtype)
            case OrderedBundles():
                return BundleDecoder(_format(ordered.form))
            case OrderedOwnDecoder():
                self._allowed.refuse_code(ordered.name)
                return CustomDecoder(
                    ordered.name, ordered.train, None, ordered.shape, ordered.dtype, ordered.takes_seed
                )
            case OrderedTransform():
                self._allowed.refuse_code(ordered.name)
                find = partial(recipe_transform, ordered.name)
                return TransformDecoder(ordered.name, self._decoder(ordered.inner), ordered.shape, find(), find)


def _lengths(data: OrderedData) -> SampleLengths | None:
    known = data.lengths
    if known is None:
        return None
    if len(known.table) != data.samples:
        raise RunError(
            f"the engine knows the lengths of {len(known.table)} of the {data.samples} samples of {data.name}"
        )
    return SampleLengths(known.table.numpy(), known.inputs, known.targets)


def _pruned(network: Network, fraction: float) -> Network:
    from palmette.compress.networks import prune_network  # rarely needed, and not light

    return prune_network(network, fraction)[0]


def _held(network: Network, order: WorkOrder) -> dict[int, nn.Module]:
    """The layers that an order names, with its weights.

    Raises:
        RunError: the network here is another one.
    """
    try:
        values = from_bytes(order.weights)
        layers = {n: network.layers[n - 1].module for n in order.layers if n >= 1}
    except (SafetensorError, IndexError):
        raise RunError(f"the weights of {order.names.model} that the engine sent do not fit") from None
    for module in layers.values():
        own = module.state_dict()
        if any(name not in values or values[name].shape != each.shape for name, each in own.items()):
            raise RunError(f"{order.names.model} is another network here; expected the same version on all machines")
        module.load_state_dict({name: values[name] for name in own})
    return layers


def _owned_data(order: WorkOrder) -> set[str]:
    """The names of the data of which this node owns samples."""
    given, phases = order.source, [program.phase for program in order.programs if program is not None]
    assert given is not None
    if given.shares is None:
        own = {k for phase in phases for k, source in enumerate(phase.sources) if source.node == order.node}
        return {data.name for group, data in given.groups if own & set(group.sources)}
    owned = set()
    for phase in phases:
        root = next(instance.id for instance in phase.instances if instance.into is None)
        shards = given.shares.get(root, ())
        owned |= {shard.data for shard, feed in zip(shards, phase.sources, strict=False) if feed.node == order.node}
    return owned


def _format(ordered: OrderedFormat) -> ItemFormat:
    return ItemFormat(ordered.tensors, _tree(ordered.structure), ordered.classes)


def _tree(marked: Any) -> LabelTree:
    match marked:
        case {"tuple": list(parts)}:
            return tuple(_tree(each) for each in parts)
        case {"dict": dict(parts)}:
            return {key: _tree(each) for key, each in parts.items()}
        case list(parts):
            return [_tree(each) for each in parts]
        case None | int():
            return marked
        case _:
            raise RunError("the engine describes targets in a way that this version does not know")
