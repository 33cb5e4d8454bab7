"""From a setup to an order: modules, losses and decoders become the names by which a worker builds them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes

from palmette.errors import RunError
from palmette.runtime.data.left_samples import ends_with_run
from palmette.runtime.data.sources import DataDescription, ShardedData, StepData
from palmette.runtime.engines.hub.messages import (
    OrderedBundles,
    OrderedCompressedImages,
    OrderedData,
    OrderedDecoder,
    OrderedFormat,
    OrderedImages,
    OrderedLengths,
    OrderedObjective,
    OrderedOwnDecoder,
    OrderedSamples,
    OrderedTensors,
    OrderedTransform,
    WorkOrder,
)
from palmette.runtime.engines.hub.relays import RelayEndpoint
from palmette.runtime.options import Options
from palmette.runtime.worker.setup import Setup, unshared
from palmette.zoo.data.base import Decoder, LabelTree
from palmette.zoo.data.compressed import CompressedImageDecoder
from palmette.zoo.data.custom_bundles import BundleDecoder
from palmette.zoo.data.custom_decoder import CustomDecoder
from palmette.zoo.data.custom_tensors import TensorDecoder
from palmette.zoo.data.images import ImageDecoder
from palmette.zoo.data.item_format import ItemFormat
from palmette.zoo.data.transformed import TransformDecoder
from palmette.zoo.lengths import SampleLengths
from palmette.zoo.models import UNNAMED
from palmette.zoo.recipes.loss import ClassificationLoss
from palmette.zoo.recipes.objective import TrainingObjective


def order_of(setup: Setup) -> WorkOrder:
    """A setup as an order.

    Raises:
        RunError: something in it has no name that another machine could find it by.
    """
    names, endpoint = setup.names, setup.endpoint
    assert names is not None, "a setup for a hub has names"
    assert isinstance(endpoint, RelayEndpoint), "workers at a hub are connected by it"
    if UNNAMED in (names.model, names.recipe):
        raise _unnamed("the recipe")
    weights = {name: each for layer in setup.layers.values() for name, each in layer.state_dict().items()}
    return WorkOrder(
        node=setup.node,
        names=names,
        programs=tuple(setup.programs),
        layers=tuple(setup.layers),
        weights=to_bytes(unshared(weights)),
        optimizer=setup.optimizer,
        options=_options(setup.options),
        objective=_objective(setup.objective, names.recipe),
        source=_samples(setup.source),
        cpu_limit=setup.cpu_limit,
        device=setup.device,
        threads=setup.threads,
        profiled_precision=setup.profiled_precision,
        rollback=setup.rollback,
        samples=folder_id(None if setup.store is None else setup.store.folder),
        keep_samples=setup.store is not None and not ends_with_run(setup.store.folder),
        storage_bytes=None if setup.store is None else setup.store.most_bytes,
        kept=None if setup.kept_state is None else folder_id(setup.kept_state),
        token=endpoint.token,
        channels=tuple(channel for channel in endpoint.channels if setup.node in channel[1:]),
    )


def folder_id(folder: Path | None) -> str:
    """What stands for a folder of the engine's in the names of folders of workers."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:16]


def _unnamed(what: str) -> RunError:
    return RunError(f"{what} is an object of this program, and no code travels to workers at a hub; expected a name")


def _options(options: Options) -> dict[str, Any]:
    given = {each.name: getattr(options, each.name) for each in fields(options)}
    named = {name: _reference(name, given[name]) for name in ("optimizer", "schedule")}
    return given | named | {"span": asdict(options.span)}


def _reference(what: str, given: str | Callable[..., Any]) -> str:
    if isinstance(given, str):
        return given
    name = getattr(given, "__qualname__", "")
    if isinstance(given, partial) or not name.isidentifier() or given.__module__ == "__main__":
        raise _unnamed(f"the {what}")
    return f"{given.__module__}:{name}"


def _objective(objective: TrainingObjective, recipe: str | None) -> OrderedObjective:
    own = not isinstance(objective.loss, ClassificationLoss)
    labels = _format(objective.labels)
    return OrderedObjective(recipe=recipe if own else None, per_sample=objective.loss.per_sample, labels=labels)


def _samples(source: object) -> OrderedSamples | None:
    if source is None:
        return None
    assert isinstance(source, StepData | ShardedData), "samples come from data by name"
    common: dict[str, Any] = {
        "input_shape": source.input_shape,
        "dtype": source.dtype,
        "seed": source.seed,
        "iterations": source.iterations,
    }
    if isinstance(source, StepData):
        groups = tuple((group, _data(each)) for group, each in source.groups)
        return OrderedSamples(phase=source.phase, groups=groups, **common)
    shares: Mapping[str, Any] = {root: tuple(shards) for root, shards in source.shares.items()}
    return OrderedSamples(shares=dict(shares), data={n: _data(each) for n, each in source.data.items()}, **common)


def _data(described: DataDescription) -> OrderedData:
    if described.name == UNNAMED:
        raise _unnamed("the data")
    decoder, lengths = _decoder(described.decoder), _lengths(described.lengths)
    return OrderedData(name=described.name, samples=described.samples, decoder=decoder, lengths=lengths)


def _lengths(known: SampleLengths | None) -> OrderedLengths | None:
    if known is None:
        return None
    return OrderedLengths(table=torch.from_numpy(known.table), inputs=known.inputs, targets=known.targets)


def _decoder(decoder: Decoder) -> OrderedDecoder:
    match decoder:
        case ImageDecoder():
            scale, shift = decoder.scale, decoder.shift
            return OrderedImages(stored_shape=decoder.stored_shape, shape=decoder.shape, scale=scale, shift=shift)
        case CompressedImageDecoder():
            return OrderedCompressedImages(shape=decoder.shape)
        case TensorDecoder():
            return OrderedTensors(shape=decoder.shape, dtype=decoder.dtype, stored_dtype=decoder.stored_dtype)
        case BundleDecoder():
            return OrderedBundles(form=_format(decoder.form))
        case CustomDecoder():
            return OrderedOwnDecoder(
                name=decoder.name,
                train=decoder.train,
                shape=decoder.shape,
                dtype=decoder.dtype,
                takes_seed=decoder.takes_seed,
            )
        case TransformDecoder() if decoder.find is not None:
            return OrderedTransform(name=decoder.name, inner=_decoder(decoder.inner), shape=decoder.shape)
        case _:
            raise _unnamed("what decodes the samples")


def _format(form: ItemFormat) -> OrderedFormat:
    return OrderedFormat(tensors=form.tensors, structure=_marked(form.structure), classes=form.classes)


def _marked(tree: LabelTree) -> Any:
    """A tree of numbers as JSON, in which a list is a list, and other nodes say what they are."""
    match tree:
        case None | int():
            return tree
        case list():
            return [_marked(each) for each in tree]
        case tuple() if type(tree) is tuple:
            return {"tuple": [_marked(each) for each in tree]}
        case dict() if all(isinstance(key, str) for key in tree):
            return {"dict": {key: _marked(each) for key, each in tree.items()}}
        case _:
            raise _unnamed(f"a target of type {type(tree).__name__}")
