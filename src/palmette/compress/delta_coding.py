"""Delta coding: an output travels as the difference to what both ends last had of the same sample.

    sender     kept ◀── kept + extract(message)      message = compress(values − kept) ──▶
    receiver   kept ◀── kept + extract(message) ──▶ values as they arrive

While a network learns, the output of a sample changes little from epoch to epoch, and ever less: so does the error of
four bits for the difference, where that of four bits for the output itself stays (Wang et al., Fine-tuning Language
Models over Slow Networks using Activation Quantization with Guarantees, 2022: AQ-SGD). A sample that the other end has
had none of travels by itself, with another codec.

A message has the new samples first, then the differences of the others; which are which both ends know by what they
keep. Both compute the same sums in the same order, so that what they keep never differs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from palmette.compress.codec import CODERS
from palmette.compress.coders.base import Memory
from palmette.spec.codec import CODEC_KINDS, Codec

Samples = Sequence[Hashable | None]
"""The samples of a batch; None for one that nothing is kept of, as it is in the batch twice."""


class DeltaCoding:
    """One end of a channel, with the last output of each sample.

    Threads may code different samples at once.
    """

    def __init__(self, codec: Codec) -> None:
        first = CODEC_KINDS[codec].first
        assert first is not None, f"{codec} keeps nothing"
        self.first, self.later = CODERS[first], CODERS[codec]
        self.kept: dict[Hashable, Tensor] = {}

    def of(self, samples: Samples) -> DeltaCoder:
        """The coder of a batch of these samples."""
        return DeltaCoder(self, samples)

    def divided(self, samples: Samples, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """The places of samples that are new, or of another shape than before, and of the others."""
        places: tuple[list[int], list[int]] = [], []
        for place, sample in enumerate(samples):
            known = None if sample is None else self.kept.get(sample)
            places[known is not None and known.shape == shape[1:]].append(place)
        return places

    def keep(self, samples: Samples, values: Tensor) -> None:
        """Keep what has arrived of samples; in place, so that no batch stays in memory for one of its samples."""
        for sample, value in zip(samples, values, strict=True):
            known = None if sample is None else self.kept.get(sample)
            if known is not None and known.shape == value.shape:
                known.copy_(value)
            elif sample is not None:
                self.kept[sample] = value.clone()


class DeltaCoder:
    """Codes one batch at one end; each message is coded once at each end."""

    def __init__(self, coding: DeltaCoding, samples: Samples) -> None:
        self._coding, self._samples = coding, samples

    def compress(self, values: Tensor, _memory: Memory) -> Tensor:
        """The bytes of the new samples, then of the others' differences; what arrives is kept."""
        shape, dtype = tuple(values.shape), values.dtype
        new, known = self._coding.divided(self._samples, shape)
        parts = [torch.empty(0, dtype=torch.uint8)]
        if new:
            parts.append(self._coding.first.compress(values[new], {}))
        if known:
            parts.append(self._coding.later.compress(values[known] - self._last(known), {}))
        message = torch.cat(parts)
        self.extract(message, shape, dtype)
        return message

    def extract(self, message: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """The outputs as they arrive, which are kept."""
        new, known = self._coding.divided(self._samples, shape)
        size, values = self._first_bytes(len(new), shape, dtype), torch.empty(shape, dtype=dtype)
        if new:
            values[new] = self._coding.first.extract(message[:size], (len(new), *shape[1:]), dtype)
        if known:
            change = self._coding.later.extract(message[size:], (len(known), *shape[1:]), dtype)
            values[known] = self._last(known) + change
        self._coding.keep(self._samples, values)
        return values

    def bytes_of(self, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        """Those of the new samples, and those of the others' differences."""
        new, known = self._coding.divided(self._samples, shape)
        later = self._coding.later.bytes_of((len(known), *shape[1:]), dtype) if known else 0
        return self._first_bytes(len(new), shape, dtype) + later

    def _first_bytes(self, new: int, shape: tuple[int, ...], dtype: torch.dtype) -> int:
        return self._coding.first.bytes_of((new, *shape[1:]), dtype) if new else 0

    def _last(self, places: Sequence[int]) -> Tensor:
        """What is kept of the samples at these places."""
        return torch.stack([self._coding.kept[self._samples[place]] for place in places])
