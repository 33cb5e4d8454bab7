"""Images stored as bytes, which become normalised floats of the network's shape batch by batch.

So 50,000 images for a 224×224 network need no more than their 150 MB. What a sample becomes depends on the
sample alone, never on the batch it is fetched with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from palmette.zoo.data.base import Indices, Shape, data_error, format_shape
from palmette.zoo.data.raw_bytes import from_bytes


@dataclass(frozen=True, eq=False)
class ImageDecoder:
    """Images of ``stored_shape``, c×h×w bytes, as ``scale`` · bytes + ``shift`` in ``shape``."""

    stored_shape: Shape
    shape: Shape
    scale: Tensor
    shift: Tensor

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
        """Inputs, N × ``shape``; images are not augmented.

        Raises:
            InputError: one is not an image of ``stored_shape``.
        """
        return self.to_inputs(from_bytes(stored, self.stored_shape, torch.uint8))

    def to_inputs(self, pixels: Tensor) -> Tensor:
        """Inputs from N × ``stored_shape`` bytes."""
        images = torch.addcmul(self.shift, self.scale, pixels.float())
        if self.shape[0] == 1:
            images = images.mean(dim=1, keepdim=True)
        if images.shape[2:] != self.shape[1:]:
            images = torch.nn.functional.interpolate(
                images, self.shape[1:], mode="bilinear", align_corners=False, antialias=True
            )
        return images.expand(-1, self.shape[0], -1, -1).contiguous()


@dataclass(frozen=True, eq=False)
class ImageSplit:
    """Images in memory, N×c×h×w bytes, returned as ``scale`` · bytes + ``shift`` in ``shape``."""

    pixels: Tensor
    targets: Tensor
    shape: Shape
    scale: Tensor
    shift: Tensor

    stores_labels = False

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        inputs, labels = self.batch([index])
        return inputs[0], int(labels[0])

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs (N × ``shape``, float32, normalised) and labels (N integers)."""
        at = torch.as_tensor(indices, dtype=torch.long)
        return self.decoder.to_inputs(self._images(at)), self.labels(at)

    @property
    def sample_bytes(self) -> float:
        """The size of an image: a byte per pixel and channel."""
        return float(prod(self.pixels.shape[1:]))

    @property
    def decoder(self) -> ImageDecoder:
        """What turns the bytes of images into inputs."""
        return ImageDecoder(tuple(self.pixels.shape[1:]), self.shape, self.scale, self.shift)

    def stored(self, indices: Indices) -> list[bytes]:
        """The bytes of images."""
        return [image.tobytes() for image in self._images(indices).numpy()]

    def labels(self, indices: Indices) -> Tensor:
        """The labels of images."""
        return self.targets[torch.as_tensor(indices, dtype=torch.long)]

    def _images(self, indices: Indices) -> Tensor:
        return self.pixels.index_select(0, torch.as_tensor(indices, dtype=torch.long))


def normalisation(brightest: int, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and shift that bring bytes up to ``brightest`` into [0, 1] and then to mean 0 and deviation 1."""
    return (1 / (brightest * deviation)).reshape(-1, 1, 1), (-mean / deviation).reshape(-1, 1, 1)


def require_images(name: str, shape: Shape, channels: int) -> None:
    """Refuse a network that does not take such images, as they are, in grey, or repeated from grey."""
    if len(shape) != 3 or min(shape) < 1:
        raise data_error(name, f"holds images; the network takes {format_shape(shape)}, not channels × height × width")
    if channels != 1 and shape[0] not in {1, channels}:
        raise data_error(name, f"has {channels} channels, the network takes {shape[0]}; expected 1 or {channels}")
