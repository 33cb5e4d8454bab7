"""What engine and worker say to each other through a hub. No code travels.

    worker ──▶ hub    Introduction, once; then the events of ``worker.commands``
    hub ──▶ worker    WorkOrder: what to set up, by names, numbers and weights; then the commands of ``worker.commands``

A ``Setup`` holds modules, losses and decoders. An order holds the names by which the worker builds them from what is
installed on its own machine, if its owner allows that (``allowed``).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from palmette.runtime.data.samples import SourceGroup
from palmette.runtime.data.shards import DataShard
from palmette.runtime.engines.hub.codec import Codec
from palmette.runtime.options import Precision
from palmette.runtime.program import Channel, Program
from palmette.runtime.worker.commands import Command, Event
from palmette.runtime.worker.setup import SetupNames
from palmette.zoo.data.item_format import TensorFormat

PROTOCOL = 1
HUB = "hub"
"""The name in the hub's own certificate; no node may have it."""
LONGEST_TEXT = 200


class HubMessage(BaseModel):
    """What is sent: fixed once made, without fields that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Introduction(HubMessage):
    """A worker's first message: what it is."""

    protocol: int
    palmette_version: str = Field(max_length=LONGEST_TEXT)
    torch_version: str = Field(max_length=LONGEST_TEXT)


class OrderedFormat(HubMessage):
    """An ``ItemFormat``; ``structure`` is its tree, tuples and lists told apart."""

    tensors: tuple[TensorFormat, ...]
    structure: Any
    classes: int | None


class OrderedObjective(HubMessage):
    """What is minimised: cross-entropy, or the loss of the order's recipe, which counts ``per_sample``."""

    recipe: str | None
    per_sample: float | None
    labels: OrderedFormat


class OrderedImages(HubMessage):
    """An ``ImageDecoder``."""

    kind: Literal["images"] = "images"
    stored_shape: tuple[int, ...]
    shape: tuple[int, ...]
    scale: Tensor
    shift: Tensor


class OrderedCompressedImages(HubMessage):
    """A ``CompressedImageDecoder``."""

    kind: Literal["compressed images"] = "compressed images"
    shape: tuple[int, ...]


class OrderedTensors(HubMessage):
    """A ``TensorDecoder``."""

    kind: Literal["tensors"] = "tensors"
    shape: tuple[int, ...]
    dtype: torch.dtype
    stored_dtype: torch.dtype


class OrderedBundles(HubMessage):
    """A ``BundleDecoder``."""

    kind: Literal["bundles"] = "bundles"
    form: OrderedFormat


class OrderedOwnDecoder(HubMessage):
    """A ``CustomDecoder``: ``decode`` of the data set ``name``, which the worker makes itself."""

    kind: Literal["own"] = "own"
    name: str
    train: bool | None
    shape: tuple[int, ...]
    dtype: torch.dtype
    takes_seed: bool


class OrderedTransform(HubMessage):
    """A ``TransformDecoder``: the transform of the recipe ``name``."""

    kind: Literal["transform"] = "transform"
    name: str
    inner: OrderedDecoder
    shape: tuple[int, ...]


OrderedDecoder = (
    OrderedImages | OrderedCompressedImages | OrderedTensors | OrderedBundles | OrderedOwnDecoder | OrderedTransform
)


class OrderedData(HubMessage):
    """A ``DataDescription``: a data set that the worker knows by its name, if it owns any of it."""

    name: str
    samples: int
    decoder: OrderedDecoder = Field(discriminator="kind")


class OrderedSamples(HubMessage):
    """Where samples come from: ``StepData`` with ``groups``, or ``ShardedData`` with ``shares``."""

    input_shape: tuple[int, ...]
    dtype: torch.dtype
    seed: int
    iterations: int
    groups: tuple[tuple[SourceGroup, OrderedData], ...] = ()
    shares: dict[str, tuple[DataShard, ...]] | None = None
    data: dict[str, OrderedData] = Field(default_factory=dict)


class WorkOrder(HubMessage):
    """All that a worker needs to set itself up for a phase.

    ``layers`` are the numbers of those that it holds, ``weights`` their state in the safetensors format; ``options``
    are those of the training, optimizer and schedule by name. ``samples`` names a folder of the worker's own for kept
    samples. ``token`` is that of the phase's channels.
    """

    node: str
    names: SetupNames
    programs: tuple[Program | None, ...]
    layers: tuple[int, ...]
    weights: bytes = Field(repr=False)
    optimizer: bytes = Field(repr=False)
    options: dict[str, Any]
    objective: OrderedObjective
    source: OrderedSamples | None
    cpu_limit: float
    device: str
    threads: int | None
    profiled_precision: Precision | None
    rollback: bool
    samples: str = Field(pattern="^[0-9a-f]{16}$")
    token: bytes = Field(repr=False)
    channels: tuple[Channel, ...]


TO_WORKER = Codec([WorkOrder, *get_args(Command)])
TO_ENGINE = Codec([Introduction, *get_args(Event)])
