"""The data of a run by name, loaded on the workers that take samples from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from palmette.runtime.data.base import SampleReader
from palmette.runtime.data.samples import CommonBatches, NodeBatches, ShardBatches, ShardedBatches
from palmette.runtime.data.shards import DataShard
from palmette.runtime.program import Program
from palmette.zoo.data import load_data


@dataclass(frozen=True)
class CommonData:
    """A data set by name, for inputs of a shape; the seed determines the batches."""

    name: str
    input_shape: tuple[int, ...]
    seed: int

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in a program."""
        return _Lazily(lambda: self._batches(program))

    def _batches(self, program: Program) -> SampleReader:
        part = load_data(self.name, self.input_shape).train
        return CommonBatches(program.phase, part, self.seed)


@dataclass(frozen=True)
class NodeData:
    """The data set that each node names, and the row of each node."""

    names: Mapping[str, str]
    rows: Mapping[str, int]
    input_shape: tuple[int, ...]
    seed: int

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in a program."""
        return _Lazily(lambda: self._batches(program))

    def _batches(self, program: Program) -> SampleReader:
        node = program.node
        part = load_data(self.names[node], self.input_shape).train
        return NodeBatches(program.phase, node, part, self.seed, row=self.rows[node])


class _Lazily:
    """Most nodes own no data: it is loaded only on those that take samples."""

    def __init__(self, load: Callable[[], SampleReader]) -> None:
        self._load = load
        self._samples: SampleReader | None = None

    def open(self, source: int) -> None:
        """Load the data."""
        if self._samples is None:
            self._samples = self._load()

    def take(self, source: int, iteration: int) -> tuple[Tensor, Tensor]:
        """The inputs and labels that a source gives to an iteration."""
        assert self._samples is not None, "call open() first"
        return self._samples.take(source, iteration)


@dataclass(frozen=True)
class ShardedData:
    """The shard of each source, by the root of its tree and in the order of the tree's sources."""

    shares: Mapping[str, Sequence[DataShard]]
    input_shape: tuple[int, ...]
    seed: int

    def samples(self, program: Program) -> SampleReader:
        """The samples of the sources in a tree's program."""
        root = next(instance.id for instance in program.phase.instances if instance.into is None)
        return ShardedBatches(
            lambda source: self._shard(self.shares[root][source], program.phase.sources[source].samples)
        )

    def _shard(self, share: DataShard, batch: int) -> ShardBatches:
        part = load_data(share.data, self.input_shape).train
        return ShardBatches(part, share.indices(len(part), self.seed), batch, self.seed + share.number)
