"""The data of a run by name: which samples sources take, how they become inputs, and, where they live, themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from palmette.runtime.data.base import SampleReader
from palmette.runtime.data.batches import Batches, Indices, sample_seeds
from palmette.runtime.data.samples import SampleRule, ShardBatches, SourceGroup, StepBatches, TreeBatches
from palmette.runtime.data.shards import DataShard
from palmette.runtime.program import Program
from palmette.spec.plan import Phase
from palmette.zoo.data import DataSplit, load_data
from palmette.zoo.data.base import Decoder, LabelTree
from palmette.zoo.data.custom_tensors import TensorDecoder
from palmette.zoo.data.raw_bytes import to_bytes
from palmette.zoo.lengths import Lengths, SampleLengths, cut_to


@dataclass(frozen=True)
class DataDescription:
    """What every worker knows of a data set: its name, its size, and how stored samples become inputs.

    ``split`` are the samples themselves, where they cannot be loaded by the name. ``lengths`` are those of all samples,
    where a batch is cut to the longest of its own.
    """

    name: str
    samples: int
    decoder: Decoder
    split: DataSplit | None = None
    lengths: SampleLengths | None = None


class SourceSamples:
    """The samples of a program's sources; ``load`` loads the data of a source on the node that owns it.

    A phase of so many ``iterations`` uploads a part of the data in each. With ``tensor_dtype``, what is stored, and so
    travels, are the network's inputs in this dtype.
    """

    def __init__(
        self,
        rule: SampleRule,
        data: Sequence[DataDescription],
        load: Callable[[str], DataSplit],
        seed: int,
        *,
        iterations: int = 1,
        tensor_dtype: torch.dtype | None = None,
    ) -> None:
        self._rule, self._data, self._load, self._seed = rule, data, load, seed
        self._iterations, self._tensor_dtype = iterations, tensor_dtype
        self._parts: dict[str, DataSplit] = {}
        self._lock = threading.Lock()  # sources of one node take in parallel, and a user's data may not be thread-safe

    def open(self, source: int) -> None:
        """Load the data of a source."""
        name, given = self._data[source].name, self._data[source].split
        with self._lock:
            if name not in self._parts:
                self._parts[name] = self._load(name) if given is None else given

    def size(self, source: int) -> int:
        """How many samples a source's data has."""
        return self._data[source].samples

    def drawn(self, source: int, iteration: int) -> Indices:
        """The samples that a source gives to an iteration, by their numbers in its data."""
        return self._rule.drawn(source, iteration).numbers

    def uploaded(self, source: int, iteration: int) -> Indices:
        """The samples that an iteration uploads: any as many iterations in a row as the phase has upload all."""
        samples, turn = self._data[source].samples, iteration % self._iterations
        return np.arange(turn * samples // self._iterations, (turn + 1) * samples // self._iterations)

    def order(self, iteration: int) -> Indices | None:
        """Where in the batch as drawn each sample stands that sources take."""
        return self._rule.order(iteration)

    def stored(self, source: int, numbers: Indices) -> list[bytes]:
        """Samples of a source as they travel."""
        with self._lock:
            part = self._part(source)
            if self._tensor_dtype is None:
                return part.stored(numbers)
            return [to_bytes(each) for each in part.batch(numbers)[0].to(self._tensor_dtype)]

    def labels(self, source: int, numbers: Indices) -> LabelTree:
        """Labels of a source's samples."""
        with self._lock:
            return self._part(source).labels(numbers)

    def inputs(self, source: int, iteration: int, stored: Sequence[bytes]) -> Tensor:
        """What the network takes, from the stored samples that a source gives to an iteration."""
        seeds = sample_seeds(*self._rule.drawn(source, iteration), self._seed)
        with self._lock:
            decoded = self._data[source].decoder.decode(stored, seeds)
        known = self._data[source].lengths
        return decoded if known is None else cut_to(decoded, known.inputs, self._longest(iteration))

    def targets(self, iteration: int, labels: LabelTree) -> LabelTree:
        """Labels of an iteration's samples, cut to the longest of the batch."""
        known = self._data[0].lengths
        return labels if known is None else cut_to(labels, known.targets, self._longest(iteration))

    def _longest(self, iteration: int) -> Lengths:
        """How long the batch is, from whichever source."""
        found = [
            each.lengths.longest(self._rule.drawn(source, iteration).numbers)
            for source, each in enumerate(self._data)
            if each.lengths is not None
        ]
        return tuple(map(max, zip(*found, strict=True)))

    def _part(self, source: int) -> DataSplit:
        assert self._data[source].name in self._parts, "call open() first"
        return self._parts[self._data[source].name]


@dataclass(frozen=True, kw_only=True)
class _NamedData:
    """Data sets by name, for inputs of a shape and a dtype, in a phase of so many iterations.

    The seed determines the batches.
    """

    input_shape: tuple[int, ...]
    dtype: torch.dtype
    seed: int
    iterations: int

    def _reader(self, rule: SampleRule, data: Sequence[DataDescription], phase: Phase) -> SourceSamples:
        """The samples of a phase's sources, as stored or, where the phase says so, as tensors."""
        if phase.input_as == "stored":
            return SourceSamples(rule, data, self._load, self.seed, iterations=self.iterations)
        decoder = TensorDecoder(self.input_shape, self.dtype, self.dtype)
        tensors = [replace(each, decoder=decoder) for each in data]
        return SourceSamples(rule, tensors, self._load, self.seed, iterations=self.iterations, tensor_dtype=self.dtype)

    def _load(self, name: str) -> DataSplit:
        return load_data(name, self.input_shape).train


@dataclass(frozen=True, kw_only=True)
class StepData(_NamedData):
    """``step`` and ``every``: the groups of a phase's sources that share batches, each with its data."""

    phase: Phase
    groups: Sequence[tuple[SourceGroup, DataDescription]]

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in the program of the phase, or of a tree of it."""
        data = {source: each for group, each in self.groups for source in group.sources}
        instances = {instance.id for instance in program.phase.instances}
        own = [k for k, source in enumerate(self.phase.sources) if source.into in instances]
        rule: SampleRule = StepBatches(self.phase, [group for group, _ in self.groups], self.seed)
        if not program.phase.sync_kind.one_model:
            rule = TreeBatches(rule, own)
        return self._reader(rule, [data[source] for source in own], program.phase)


@dataclass(frozen=True, kw_only=True)
class ShardedData(_NamedData):
    """``epoch`` and ``async``: the shard of each source, by the root of its tree and in the order of its sources."""

    shares: Mapping[str, Sequence[DataShard]]
    data: Mapping[str, DataDescription]

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in a tree's program."""
        phase = program.phase
        root = next(instance.id for instance in phase.instances if instance.into is None)
        shares = self.shares[root]
        described = [self.data[share.data] for share in shares]
        rule = ShardBatches(
            [
                self._shard(share, each.samples, feed.samples)
                for share, each, feed in zip(shares, described, phase.sources, strict=True)
            ]
        )
        return self._reader(rule, described, phase)

    def _shard(self, share: DataShard, samples: int, batch: int) -> tuple[Indices, Batches]:
        numbers = share.indices(samples, self.seed)
        return numbers, Batches(len(numbers), batch, self.seed + share.number)
