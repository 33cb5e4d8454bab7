"""Bundles on a node and on the wire: joined, divided, and packed into messages.

A message has the tensors of a bundle one after the other. Those of floats travel in the dtype of the run and as the
instance's codec has it; integers (masks, positions) travel as they are. A gradient has only the tensors that one flows
back through, so that it may be smaller than the output, or nothing at all.

Where the lengths of samples vary from batch to batch, a message begins with the shapes of its tensors:

    dimensions, 1 byte │ each but the first, 4 bytes │ … of the next tensor │ tensors
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from palmette.compress.codec import CODERS
from palmette.compress.coders.base import Coder
from palmette.runtime.devices import to_host
from palmette.spec.codec import PLAIN, Codec
from palmette.zoo.capture import TensorSpec
from palmette.zoo.capture.bundle import Bundle

# Of a message without tensors: a profile that does not know what is frozen has workers send gradients of nothing.
EMPTY_BYTES = 1
_SIDE = np.dtype("<u4")


@dataclass(frozen=True)
class BundleFormat:
    """The format of a bundle in a run: what its tensors are, and the dtype of those of floats.

    If their shapes ``vary``, messages have them.
    """

    specs: tuple[TensorSpec, ...]
    dtype: torch.dtype
    vary: bool = False

    @property
    def gradient(self) -> BundleFormat:
        """The format of the gradient that comes back."""
        return BundleFormat(tuple(spec for spec in self.specs if spec.gradient), self.dtype, self.vary)

    def coders(self, codec: Codec) -> list[Coder]:
        """The coder of each tensor: the codec's, if it has floats."""
        return [CODERS[codec if spec.dtype.is_floating_point else PLAIN] for spec in self.specs]

    def message(self, bundle: Bundle, coders: Sequence[Coder]) -> Tensor:
        """The bytes of a bundle, each tensor as its coder has it."""
        pairs = zip(bundle, coders, strict=True)
        parts = [coder.compress(to_host(tensor).detach(), {}) for tensor, coder in pairs]
        if not parts:
            return torch.zeros(EMPTY_BYTES, dtype=torch.uint8)
        if self.vary:
            parts = [_packed_shapes(bundle), *parts]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def unpacked(self, message: Tensor, samples: int, coders: Sequence[Coder]) -> Bundle:
        """The bundle of so many samples in a message."""
        if not self.specs:
            return ()
        if self.vary:
            shapes, message = _unpacked_shapes(message, len(self.specs))
            specs = tuple(replace(spec, shape=shape) for spec, shape in zip(self.specs, shapes, strict=True))
            return BundleFormat(specs, self.dtype).unpacked(message, samples, coders)
        sizes = self._tensor_bytes(samples, coders)
        # Cloned, since a slice of the message may not be aligned for its dtype.
        parts = [message] if len(sizes) == 1 else [part.clone() for part in torch.split(message, sizes)]
        return tuple(
            coder.extract(part, (samples, *spec.shape), self.tensor_dtype(spec))
            for part, spec, coder in zip(parts, self.specs, coders, strict=True)
        )

    def message_bytes(self, samples: int, coders: Sequence[Coder]) -> int:
        """The length of the message for so many samples."""
        return sum(self._tensor_bytes(samples, coders)) if self.specs else EMPTY_BYTES

    def _tensor_bytes(self, samples: int, coders: Sequence[Coder]) -> list[int]:
        """The length of each tensor's part."""
        pairs = zip(self.specs, coders, strict=True)
        return [coder.bytes_of((samples, *spec.shape), self.tensor_dtype(spec)) for spec, coder in pairs]

    def tensor_dtype(self, spec: TensorSpec) -> torch.dtype:
        """The dtype of one of the tensors: the run's if it has floats."""
        return self.dtype if spec.dtype.is_floating_point else spec.dtype

    def cast(self, bundle: Bundle) -> Bundle:
        """A bundle with the dtypes of the run."""
        return tuple(tensor.to(self.tensor_dtype(spec)) for tensor, spec in zip(bundle, self.specs, strict=True))

    def example(self, samples: int) -> Bundle:
        """Any bundle of this format: random floats, and integers as they were seen, 0 where they were not."""
        return tuple(self._example(spec, (samples, *spec.shape)) for spec in self.specs)

    def _example(self, spec: TensorSpec, shape: tuple[int, ...]) -> Tensor:
        if spec.dtype.is_floating_point:
            return torch.randn(shape, dtype=self.tensor_dtype(spec))
        return torch.zeros(shape, dtype=spec.dtype) if spec.integers is None else spec.integers.expand(shape).clone()


def _packed_shapes(bundle: Bundle) -> Tensor:
    """The shapes of one sample of each tensor."""
    parts = [bytes([each.dim() - 1]) + np.array(each.shape[1:], dtype=_SIDE).tobytes() for each in bundle]
    return torch.frombuffer(bytearray().join(parts), dtype=torch.uint8)


def _unpacked_shapes(message: Tensor, many: int) -> tuple[list[tuple[int, ...]], Tensor]:
    """The shapes of so many tensors in a message, and what follows them."""
    shapes, raw, begin = [], message.numpy(), 0
    for _ in range(many):
        end = begin + 1 + int(raw[begin]) * _SIDE.itemsize
        shapes.append(tuple(np.frombuffer(raw[begin + 1 : end].tobytes(), dtype=_SIDE).tolist()))
        begin = end
    return shapes, message[begin:].clone()


def joined_samples(bundles: Sequence[Bundle]) -> Bundle:
    """Bundles of different samples as one."""
    if len(bundles) == 1:
        return bundles[0]
    return tuple(torch.cat(parts) for parts in zip(*bundles, strict=True))


def divided(bundle: Bundle, samples: Sequence[int]) -> list[Bundle]:
    """A bundle as bundles of so many samples each."""
    parts = [torch.split(tensor, list(samples)) for tensor in bundle]
    return [tuple(part[place] for part in parts) for place in range(len(samples))]


def detached(bundle: Bundle, dtype: torch.dtype) -> Bundle:
    """A bundle without its history, floats in the dtype of the run."""
    return tuple(each.detach().to(dtype) if each.is_floating_point() else each.detach() for each in bundle)
