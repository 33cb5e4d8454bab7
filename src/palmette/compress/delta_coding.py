"""Delta coding: an output travels as the difference to what both ends last had of the same sample.

    sender     kept ◀── kept + extract(message)      message = compress(values − kept) ──▶
    receiver   kept ◀── kept + extract(message) ──▶ values as they arrive

While a network learns, the output of a sample changes little from epoch to epoch, and ever less: so does the error of
four bits for the difference, where that of four bits for the output itself stays (Wang et al., Fine-tuning Language
Models over Slow Networks using Activation Quantization with Guarantees, 2022: AQ-SGD). A sample that the other end has
had none of travels by itself, with another codec.

A message has the new samples first, then the deltas of the others; which are which both ends know by what they
keep. Both compute the same sums in the same order, so that what they keep never differs.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from palmette.compress.codec import CODERS
from palmette.compress.coders.base import Memory
from palmette.spec.codec import CODEC_KINDS, Codec

Samples = Sequence[Hashable | None]
"""The samples of a batch; None for one that nothing is kept of, as it is in the batch twice."""


class DeltaCoding:
    """One end of a channel, with the last output of each of at most ``capacity`` samples.

    Threads may code different samples at once. Memory is taken as samples come.
    """

    def __init__(self, codec: Codec, capacity: int) -> None:
        first = CODEC_KINDS[codec].first
        assert first is not None, f"{codec} keeps nothing"
        self.first, self.later, self._capacity = CODERS[first], CODERS[codec], capacity
        self._rows: Tensor | None = None
        self._places: dict[Hashable, int] = {}
        self._lock = threading.Lock()

    def of(self, samples: Samples) -> DeltaCoder:
        """The coder of a batch of these samples."""
        return DeltaCoder(self, samples)

    def __contains__(self, sample: Hashable | None) -> bool:
        return sample is not None and sample in self._places

    def last(self, samples: Samples) -> Tensor:
        """What is kept of samples."""
        assert self._rows is not None, "nothing is kept yet"
        return self._rows.index_select(0, torch.tensor([self._places[sample] for sample in samples]))

    def keep(self, samples: Samples, values: Tensor) -> None:
        """Keep what has arrived of samples."""
        own = [row for row, sample in enumerate(samples) if sample is not None]
        with self._lock:
            if self._rows is None:  # its pages are taken when they are written to
                self._rows = torch.empty((self._capacity, *values.shape[1:]), dtype=values.dtype)
            places = [self._places.setdefault(samples[row], len(self._places)) for row in own]
        self._rows.index_copy_(0, torch.tensor(places, dtype=torch.int64), rows(values, own))


def rows(values: Tensor, places: Sequence[int]) -> Tensor:
    """Rows of a tensor, in ascending order; itself where that is all of them."""
    return values if len(places) == len(values) else values.index_select(0, torch.tensor(places, dtype=torch.int64))


class DeltaCoder:
    """Codes one batch at one end; each message is coded once at each end."""

    def __init__(self, coding: DeltaCoding, samples: Samples) -> None:
        self._coding, self._samples = coding, samples
        self._new = [row for row, sample in enumerate(samples) if sample not in coding]
        self._known = [row for row, sample in enumerate(samples) if sample in coding]

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of the new samples, then of the others' deltas; what arrives is kept."""
        parts = [torch.empty(0, dtype=torch.uint8)]
        if self._new:
            parts.append(self._coding.first.compress(rows(values, self._new), {}))
        if self._known:
            parts.append(self._coding.later.compress(rows(values, self._known) - self._last(), {}))
        message = torch.cat(parts)
        self.extract(message, tuple(values.shape), values.dtype)
        return message

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The outputs as they arrive, which are kept."""
        first_bytes, parts = self._first_bytes(shape, dtype), list[Tensor]()
        if self._new:
            parts.append(self._coding.first.extract(message[:first_bytes], (len(self._new), *shape[1:]), dtype))
        if self._known:
            change = self._coding.later.extract(message[first_bytes:], (len(self._known), *shape[1:]), dtype)
            parts.append(change.add_(self._last()))
        values = parts[0]
        if len(parts) > 1:
            values = torch.empty(shape, dtype=dtype)
            values.index_copy_(0, torch.tensor([*self._new, *self._known]), torch.cat(parts))
        self._coding.keep(self._samples, values)
        return values

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """Those of the new samples, and those of the others' deltas."""
        known = self._coding.later.bytes_of((len(self._known), *shape[1:]), dtype) if self._known else 0
        return self._first_bytes(shape, dtype) + known

    def _first_bytes(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return self._coding.first.bytes_of((len(self._new), *shape[1:]), dtype) if self._new else 0

    def _last(self) -> Tensor:
        """What is kept of the samples that are not new."""
        return self._coding.last([self._samples[row] for row in self._known])
