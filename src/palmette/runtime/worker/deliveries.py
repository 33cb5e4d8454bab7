"""How samples get from their owner to the node that computes on them: the two ends of a source's channel.

Both ends know which samples an iteration takes, and which of them the receiver has kept from earlier iterations of the
phase, whichever of the owner's sources has sent them (``DeliveredBefore``). So a message holds the others alone, and
there is none if there are no others. What a node has kept from before counts once the owner has compared checksums
(``SampleSender.verified``).

A message:  ┌──────────────┬────────────────────┬──────────────────────────────┐
            │ sizes vary?  │ sizes, if they do  │ label, stored sample │ label … │
            └──────────────┴────────────────────┴──────────────────────────────┘
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from palmette.errors import RunError
from palmette.runtime.data.base import SampleReader
from palmette.runtime.data.batches import Indices
from palmette.runtime.data.kept_samples import KeptSamples, checksum, read_list
from palmette.runtime.data.labels import Labels, refuse_unknown_labels
from palmette.zoo.data.item_format import ItemFormat

_SIZES = np.dtype("<u4")


class StoredBatch(NamedTuple):
    """The samples of a source in an iteration, as they are stored, and the labels that travel with them."""

    samples: list[bytes]
    labels: Tensor


@dataclass(frozen=True)
class PackedLabels:
    """Labels beside the samples of a source.

    They are ``packed`` with samples if they ``travel`` to the loss; and with those that are kept in any case, since
    another source or phase may need them there.
    """

    form: ItemFormat
    travel: bool
    packed: bool

    @property
    def size_bytes(self) -> int:
        """Of one label."""
        return self.form.stored_bytes if self.packed else 0

    def read(self, packed: Sequence[bytes]) -> Tensor:
        """Labels of samples as rows; none if they stay."""
        return self.form.from_stored(packed if self.travel else ())


class UploadedSamples:
    """The samples of sources as a phase uploads them for a later one: each iteration the next of all."""

    def __init__(self, reader: SampleReader) -> None:
        self._reader = reader
        self.open, self.stored, self.labels = reader.open, reader.stored, reader.labels
        self.inputs, self.order, self.uploaded = reader.inputs, reader.order, reader.uploaded
        self.targets, self.size = reader.targets, reader.size

    def drawn(self, source: int, iteration: int) -> Indices:
        """The samples that an iteration uploads."""
        return self._reader.uploaded(source, iteration)


class OwnedSamples:
    """The samples of a source, on the node that owns them."""

    def __init__(self, reader: SampleReader, source: int, labels: Labels, form: ItemFormat, node: str) -> None:
        self._reader, self._source, self._labels, self._form, self._node = reader, source, labels, form, node
        reader.open(source)

    def drawn(self, iteration: int) -> Indices:
        """The samples of an iteration, by their numbers."""
        return self._reader.drawn(self._source, iteration)

    @property
    def size(self) -> int:
        """How many samples the source's data has."""
        return self._reader.size(self._source)

    def batch(self, iteration: int) -> StoredBatch:
        """The samples of an iteration; labels that do not travel stay here for their root."""
        numbers = self.drawn(iteration)
        leaving = self._labels.leaving(self._source, iteration, self._known_labels(numbers))
        return StoredBatch(self._reader.stored(self._source, numbers), leaving)

    def packed(self, numbers: Indices, form: PackedLabels) -> list[bytes]:
        """Samples as they travel, each behind its label if that is packed too."""
        samples = self._reader.stored(self._source, numbers)
        if not form.packed:
            return samples
        labels = self._form.stored(self._known_labels(numbers))
        return [label + sample for label, sample in zip(labels, samples, strict=True)]

    def keep_labels(self, iteration: int) -> None:
        """Keep the labels of an iteration here for their root, if they do not travel."""
        self._labels.leaving(self._source, iteration, self._known_labels(self.drawn(iteration)))

    def _known_labels(self, numbers: Indices) -> Tensor:
        """Labels as rows."""
        labels = self._reader.labels(self._source, numbers)
        if self._form.classes is not None:
            refuse_unknown_labels(labels, self._form.classes, self._node)
        return self._form.rows(labels, len(numbers))


class DeliveredBefore:
    """Which samples of an owner another node has before an iteration, known at both ends without a message.

    ``sources`` are those of the owner whose samples the node keeps. All that they have drawn in earlier iterations is
    there, or on its way; what an iteration needs has arrived when it begins.
    """

    def __init__(self, reader: SampleReader, sources: Sequence[int]) -> None:
        self._reader, self._sources = reader, sources
        self._first: dict[int, int] = {}
        self._next: int | None = None
        self._lock = threading.Lock()

    def start_with(self, numbers: Iterable[int]) -> None:
        """Count samples that are there from the beginning."""
        self._first, self._next = dict.fromkeys(numbers, -1), None

    def new(self, drawn: Indices, iteration: int) -> Indices:
        """Those of the samples drawn for an iteration that are not there before it, each once."""
        with self._lock:
            for number in range(iteration if self._next is None else self._next, iteration + 1):
                for source in self._sources:
                    for each in self._reader.drawn(source, number).tolist():
                        self._first.setdefault(each, number)
                self._next = number + 1
            new = [each for each in dict.fromkeys(drawn.tolist()) if self._first.get(each, iteration) >= iteration]
        return np.array(new, dtype=np.int64)


class SampleSender:
    """The owner's end: sends the samples of an iteration that the receiver, if it keeps any, does not have."""

    def __init__(self, owned: OwnedSamples, form: PackedLabels, before: DeliveredBefore | None) -> None:
        self._owned, self._form, self._before = owned, form, before

    @property
    def keeps(self) -> bool:
        """Whether the receiver keeps samples for later iterations."""
        return self._before is not None

    def verified(self, listed: bytes) -> list[int]:
        """The samples that the receiver has listed and has unchanged; they are not sent. Data may be shorter now."""
        expected = {number: each for number, each in read_list(listed).items() if 0 <= number < self._owned.size}
        numbers = np.array(sorted(expected), dtype=np.int64)
        found = []
        for some in np.array_split(numbers, max(1, len(numbers) // 1024)):
            packed = self._owned.packed(some, self._form) if len(some) else []
            found += [
                number
                for number, sample in zip(some.tolist(), packed, strict=True)
                if checksum(number, sample) == expected[number]
            ]
        if self._before is not None:
            self._before.start_with(found)
        return found

    def message(self, iteration: int) -> Tensor | None:
        """What an iteration's samples need to be sent; None if nothing does."""
        drawn = self._owned.drawn(iteration)
        new = drawn if self._before is None else self._before.new(drawn, iteration)
        return _joined(self._owned.packed(new, self._form)) if len(new) else None


class SampleReceiver:
    """The other end: takes samples from messages, and those that were kept from its file."""

    def __init__(
        self,
        reader: SampleReader,
        source: int,
        form: PackedLabels,
        kept: KeptSamples | None = None,
        before: DeliveredBefore | None = None,
    ) -> None:
        self._reader, self._source, self._form, self._kept, self._before = reader, source, form, kept, before

    @property
    def keeps(self) -> bool:
        """Whether samples are kept for later iterations."""
        return self._kept is not None

    def trust(self, numbers: Sequence[int]) -> None:
        """Count samples that were kept before, and that their owner has found to be unchanged."""
        if self._before is not None:
            self._before.start_with(numbers)

    def expected(self, iteration: int) -> Indices:
        """The samples that an iteration's message brings; none, if there is no message."""
        drawn = self._reader.drawn(self._source, iteration)
        return drawn if self._before is None else self._before.new(drawn, iteration)

    def arrived(self, iteration: int, message: Tensor) -> list[bytes]:
        """Take the samples of a message; those that are kept are written down, and wait for their iteration there.

        Raises:
            RunError: the message does not hold what was expected.
        """
        numbers = self.expected(iteration).tolist()
        samples = _split(message, len(numbers))
        if self._kept is None:
            return samples
        for number, sample in zip(numbers, samples, strict=True):
            self._kept.add(number, sample)
        return []

    def batch(self, iteration: int, arrived: Sequence[bytes]) -> StoredBatch:
        """The samples of an iteration that has begun, ``arrived`` or kept."""
        packed = arrived
        if self._kept is not None:
            packed = [self._kept.get(number) for number in self._reader.drawn(self._source, iteration).tolist()]
        label = self._form.size_bytes
        return StoredBatch([each[label:] for each in packed], self._form.read([each[:label] for each in packed]))


Deliveries = Mapping[int, SampleSender | SampleReceiver]
"""A node's ends of the transfers of samples, by the operation's number."""
NO_DELIVERIES: Deliveries = MappingProxyType({})


def _joined(samples: Sequence[bytes]) -> Tensor:
    """Samples as one message."""
    sizes = [len(sample) for sample in samples]
    vary = len(set(sizes)) > 1
    head = bytes([vary]) + (np.array(sizes, dtype=_SIZES).tobytes() if vary else b"")
    return torch.frombuffer(bytearray().join((head, *samples)), dtype=torch.uint8)


def _split(message: Tensor, many: int) -> list[bytes]:
    """The samples of a message.

    Raises:
        RunError: it does not hold so many.
    """
    raw = message.numpy().tobytes()
    vary, begin = raw[:1] == b"\1", 1
    if vary:
        begin += many * _SIZES.itemsize
        sizes = np.frombuffer(raw[1:begin], dtype=_SIZES).astype(np.int64).tolist()
    else:
        sizes = [(len(raw) - 1) // many] * many if many else []
    if raw[:1] not in (b"\0", b"\1") or len(sizes) != many or begin + sum(sizes) != len(raw):
        raise RunError(f"a message of {len(raw)} bytes does not hold {many} samples")
    ends = [begin, *itertools.accumulate(sizes, initial=begin)][1:]
    return [raw[a:b] for a, b in itertools.pairwise(ends)]
