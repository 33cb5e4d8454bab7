"""What engine and worker say to each other through a hub. No code travels.

    worker ──▶ hub    Introduction, once; then the events of ``worker.commands``, and the results of ``engines.probes``
                      RenewalRequest: its certificate ends soon
    hub ──▶ worker    WorkOrder: what to set up, by names, numbers and weights; then the commands of ``worker.commands``
                      or, at any time, the requests of ``engines.probes``
                      FetchKept, ForgetKept: what to do with the state that was kept when an engine was gone
                      RunEnded: a run is over; RenewedCertificate: another one for its key

A ``Setup`` holds modules, losses and decoders. An order holds the names by which the worker builds them from what is
installed on its own machine, if its owner allows that (``allowed``).
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict
from torch import Tensor

from palmette.runtime.data.samples import SourceGroup
from palmette.runtime.data.shards import DataShard
from palmette.runtime.engines.hub.codec import Codec
from palmette.runtime.engines.hub.limits import NO_LIMITS, WorkerLimits
from palmette.runtime.engines.probes import ProbeRequest, ProbeResult
from palmette.runtime.options import Precision
from palmette.runtime.program import Channel, Program
from palmette.runtime.worker.commands import Command, Event
from palmette.runtime.worker.setup import SetupNames
from palmette.spec.plan import Phase
from palmette.zoo.data.item_format import TensorFormat
from palmette.zoo.lengths import VaryingAxis

PROTOCOL = 2
"""The version of these messages. 2: a worker learns when a run is over, and reports its limits."""
SINCE_2: JsonDict = {"since": 2}
"""Marks a field of a message that the first version does not have; it is left out for a reader of that version."""
HUB = "hub"
"""The name in the hub's own certificate; no node may have it."""
LONGEST_TEXT = 200
LONGEST_CERTIFICATE = 64 * 1024
_FOLDER = "^[0-9a-f]{16}$"


class HubMessage(BaseModel):
    """What is sent: fixed once made, without fields that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Introduction(HubMessage):
    """A worker's first message: what it is.

    What later versions have added has a default, so that a hub understands the version before. With ``any_version``
    its owner lets it work beside a torch that was not tested with its own.
    """

    protocol: int
    palmette_version: str = Field(max_length=LONGEST_TEXT)
    torch_version: str = Field(max_length=LONGEST_TEXT)
    any_version: bool = Field(default=False, json_schema_extra=SINCE_2)
    limits: WorkerLimits = Field(default=NO_LIMITS, json_schema_extra=SINCE_2)


class RunEnded(HubMessage):
    """A run is over; sent to all workers, whether or not they took part."""


class RenewalRequest(HubMessage):
    """A worker's certificate ends soon."""


class RenewedCertificate(HubMessage):
    """Another certificate for a worker's key, in the PEM format."""

    certificate: bytes = Field(max_length=LONGEST_CERTIFICATE)


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


class OrderedLengths(HubMessage):
    """The lengths of a data set's samples, a row each, and the axes of inputs and targets that have them."""

    table: Tensor
    inputs: tuple[VaryingAxis, ...]
    targets: tuple[VaryingAxis, ...]


class OrderedData(HubMessage):
    """A ``DataDescription``: a data set that the worker knows by its name, if it owns any of it."""

    name: str
    samples: int
    decoder: OrderedDecoder = Field(discriminator="kind")
    lengths: OrderedLengths | None = None


class OrderedSamples(HubMessage):
    """Where samples come from: ``StepData`` with ``phase`` and ``groups``, or ``ShardedData`` with ``shares``."""

    input_shape: tuple[int, ...]
    dtype: torch.dtype
    seed: int
    iterations: int
    phase: Phase | None = None
    groups: tuple[tuple[SourceGroup, OrderedData], ...] = ()
    shares: dict[str, tuple[DataShard, ...]] | None = None
    data: dict[str, OrderedData] = Field(default_factory=dict)


class WorkOrder(HubMessage):
    """All that a worker needs to set itself up for a phase.

    ``layers`` are the numbers of those that it holds, ``weights`` their state in the safetensors format; ``options``
    are those of the training, optimizer and schedule by name. ``samples`` names a folder of the worker's own for kept
    samples, at most ``storage_bytes``, which stay after the run if ``keep_samples``; ``kept`` one for its state where
    the engine is gone, None where it is not kept. ``token`` is that of the phase's channels.
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
    samples: str = Field(pattern=_FOLDER)
    keep_samples: bool = Field(default=False, json_schema_extra=SINCE_2)
    storage_bytes: int | None = Field(default=None, gt=0, json_schema_extra=SINCE_2)
    kept: str | None = Field(default=None, pattern=_FOLDER, json_schema_extra=SINCE_2)
    token: bytes = Field(repr=False)
    channels: tuple[Channel, ...]


class FetchKept(HubMessage):
    """Send the state after so many iterations that was kept in a folder, if it is not too old, as a ``StateReply``."""

    kept: str = Field(pattern=_FOLDER)
    iterations: int = Field(ge=0)
    patience_s: float = Field(ge=0)


class DeleteSamples(HubMessage):
    """Delete the samples that were kept for a run in a folder, and answer with ``KeptDeleted``."""

    samples: str = Field(pattern=_FOLDER)


class ForgetKept(HubMessage):
    """Remove the state that was kept in a folder: the engine has not died, and went on without it."""

    kept: str = Field(pattern=_FOLDER)


KeptRequest = FetchKept | DeleteSamples
"""What a worker is asked about what it has kept on its disk."""
TO_WORKER = Codec(
    [
        WorkOrder,
        RunEnded,
        RenewedCertificate,
        ForgetKept,
        *get_args(KeptRequest),
        *get_args(ProbeRequest),
        *get_args(Command),
    ]
)
TO_ENGINE = Codec([Introduction, RenewalRequest, *get_args(ProbeResult), *get_args(Event)])
