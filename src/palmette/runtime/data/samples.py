"""Which samples each source gives to an iteration: slices of batches, or batches of its own shard. Pure, no torch.

Where nodes keep samples or outputs, the batch is put into a fixed order before it is cut into slices
(``DealtBatches``): a function of data, seed and iteration, whatever nodes have kept. A batch that goes to one source as
a whole stays as it was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from palmette.cost.delivery import keeps_samples
from palmette.cost.kept_outputs import keeps_outputs
from palmette.runtime.data.batches import Batches, DealtBatches, Indices
from palmette.runtime.program import slices
from palmette.spec.plan import Phase


class DrawnSamples(NamedTuple):
    """Samples by their numbers in the data, and the pass over the data that each belongs to, from 0."""

    numbers: Indices
    passes: Indices


class SampleRule(Protocol):
    """Which samples each source gives to an iteration."""

    def drawn(self, source: int, iteration: int) -> DrawnSamples:
        """The samples of a source."""
        ...

    def order(self, iteration: int) -> Indices | None:
        """Where in the batch as drawn each sample stands that sources take, in the plan's order; None if as drawn."""
        ...


class SourceGroup(NamedTuple):
    """Sources that draw from the same data, which has so many samples; each row of it is shuffled differently."""

    sources: Sequence[int]
    samples: int
    row: int = 0


class StepBatches:
    """``step``: the sources of a group take consecutive slices of a common batch, in the plan's order.

    A group's batch has as many samples as the plan takes from all its sources, so that it goes through its data pass by
    pass, however many branches use it.
    """

    def __init__(self, phase: Phase, groups: Sequence[SourceGroup], seed: int) -> None:
        self._batch, self._places = phase.batch, slices(phase)
        self._slices: dict[int, tuple[Batches, int, int]] = {}
        self._dealt: list[tuple[DealtBatches, Indices]] = []
        for group in groups:
            self._add(phase, group, seed)

    def _add(self, phase: Phase, group: SourceGroup, seed: int) -> None:
        sizes = [phase.sources[source].samples for source in group.sources]
        dealt = len(sizes) > 1 and (keeps_samples(phase) or keeps_outputs(phase))
        batches = (DealtBatches if dealt else Batches)(group.samples, sum(sizes), seed, row=group.row)
        ends = np.cumsum([0, *sizes])
        for source, begin, end in zip(group.sources, ends[:-1], ends[1:], strict=True):
            self._slices[source] = batches, int(begin), int(end)
        if isinstance(batches, DealtBatches):
            places = [np.arange(*self._places[source]) for source in group.sources]
            self._dealt.append((batches, np.concatenate(places)))

    def drawn(self, source: int, iteration: int) -> DrawnSamples:
        """The samples of a source."""
        batches, begin, end = self._slices[source]
        numbers, passes = batches.indices(iteration), batches.passes(iteration)
        if isinstance(batches, DealtBatches):
            order = batches.order(iteration)
            numbers, passes = numbers[order], passes[order]
        return DrawnSamples(numbers[begin:end], passes[begin:end])

    def order(self, iteration: int) -> Indices | None:
        """Where in the batch as drawn each sample stands that sources take, in the plan's order."""
        if not self._dealt:
            return None
        order = np.arange(self._batch)
        for batches, places in self._dealt:
            order[places] = places[batches.order(iteration)]
        return order


class TreeBatches:
    """``every``: the sources of one tree, whose numbers in the whole phase are ``own``, with their slices."""

    def __init__(self, whole: SampleRule, own: Sequence[int]) -> None:
        self._whole, self._own = whole, own

    def drawn(self, source: int, iteration: int) -> DrawnSamples:
        """The samples of a source."""
        return self._whole.drawn(self._own[source], iteration)

    def order(self, iteration: int) -> Indices | None:
        """As they are drawn: a tree's batch is its own."""
        return None


class ShardBatches:
    """``epoch`` and ``async``: each source draws batches from its own shard, by the numbers in its data."""

    def __init__(self, shards: Sequence[tuple[Indices, Batches]]) -> None:
        self._shards = shards

    def drawn(self, source: int, iteration: int) -> DrawnSamples:
        """The samples that a source gives to its tree's step."""
        numbers, batches = self._shards[source]
        return DrawnSamples(numbers[batches.indices(iteration)], batches.passes(iteration))

    def order(self, iteration: int) -> Indices | None:
        """As they are drawn."""
        return None
