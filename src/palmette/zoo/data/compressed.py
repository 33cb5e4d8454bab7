"""Compressed images (JPEG, PNG and whatever else Pillow reads), which travel as they are and become inputs at the end.

    bytes ─▶ pixels ─▶ the network's channels ─▶ the network's size ─▶ normalised floats

The whole picture is resized, without keeping its proportions and without obeying a tag that turns it, and normalised by
the constants below, never by the data: so a sample is the same on every node and in every batch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palmette.errors import InputError
from palmette.zoo.data.base import Shape, data_error
from palmette.zoo.data.files import file_error
from palmette.zoo.data.images import ImageDecoder, normalisation, require_images

COLOURS = 3
# Of ImageNet's photographs, in units of full brightness; grey is the mean of the three.
MEAN = {1: (0.449,), 3: (0.485, 0.456, 0.406)}
DEVIATION = {1: (0.226,), 3: (0.229, 0.224, 0.225)}
START_OF_SCAN, END_OF_JPEG = b"\xff\xda", b"\xff\xd9"


@dataclass(frozen=True)
class CompressedImageDecoder:
    """Images in ``shape``, channels × height × width, from the bytes of their files; channels are 1 or 3."""

    shape: Shape

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
        """Inputs, N × ``shape``; images are not augmented.

        Raises:
            InputError: one is not an image, or Pillow is not installed on this node.
        """
        require_pillow("a stored sample")
        pixels = [self._pixels(each) for each in stored]
        stacked = torch.stack(pixels) if pixels else torch.empty(0, *self.shape, dtype=torch.uint8)
        mean, deviation = (torch.tensor(each[self.shape[0]]) for each in (MEAN, DEVIATION))
        return ImageDecoder(self.shape, self.shape, *normalisation(255, mean, deviation)).to_inputs(stacked)

    def _pixels(self, data: bytes) -> Tensor:
        from PIL import Image

        channels, height, width = self.shape
        try:
            with Image.open(BytesIO(data)) as image:
                found = _in_mode(image, "L" if channels == 1 else "RGB")
                array = np.array(found.resize((width, height), Image.Resampling.BILINEAR))
        except Exception as error:
            raise _unreadable("a stored sample", data, error) from error
        return torch.from_numpy(array).reshape(height, width, channels).permute(2, 0, 1)


def require_network_of_images(name: str, shape: Shape) -> None:
    """Refuse a network that takes no images in grey or in colours, and any where Pillow is not installed."""
    require_images(name, shape, channels=COLOURS)
    require_pillow(name)


def require_pillow(name: str) -> None:
    """Refuse images where Pillow is not installed."""
    if importlib.util.find_spec("PIL") is None:
        raise data_error(name, "Pillow is not installed; expected pip install 'palmette[images]'")


def require_whole(data: bytes, name: str) -> bytes:
    """The bytes themselves, if they look like a whole image; ``name`` is what errors call them.

    Checksums of a PNG and the end marker of a JPEG cost next to nothing; other formats, and doubtful ones, are decoded.

    Raises:
        InputError: they do not.
    """
    from PIL import Image

    try:
        with Image.open(BytesIO(data)) as image:
            if image.format == "PNG":
                image.verify()
            elif image.format != "JPEG" or not 0 <= data.rfind(START_OF_SCAN) < data.rfind(END_OF_JPEG):
                image.load()
    except Exception as error:
        raise _unreadable(name, data, error) from error
    return data


def _unreadable(name: str, data: bytes, error: Exception) -> InputError:
    from PIL import UnidentifiedImageError

    unknown = isinstance(error, UnidentifiedImageError)  # whose own message holds an address in memory
    reason = "" if unknown else f" ({type(error).__name__}: {error})"
    return file_error(name, f"{len(data)} bytes", f"cannot be read as an image{reason}; expected a whole JPEG or PNG")


def _in_mode(image: Any, mode: str) -> Any:
    """The image in grey or in colours; what is transparent keeps its colour, 16 bits are scaled to 8."""
    if image.mode.startswith("I"):
        from PIL import Image

        image = Image.fromarray((np.asarray(image).clip(0, 65535) // 257).astype(np.uint8))
    elif image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert(mode)
