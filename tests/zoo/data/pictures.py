"""Little pictures in a folder for each class."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np


def encoded(seed: int, ending: str = "png", size: tuple[int, int] = (12, 9), mode: str = "RGB") -> bytes:
    """A picture of random pixels as a file; each seed has its own."""
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, {"jpg": "jpeg", "tif": "tiff", "ppm": "ppm"}.get(ending, ending))
    return file.getvalue()


def write_pictures(parent: Path, *classes: str, many: int = 6, endings: tuple[str, ...] = ("png", "jpg")) -> str:
    """Folders of these names with pictures of several formats and sizes; returns the name of the data."""
    for number, name in enumerate(classes):
        (parent / name).mkdir(parents=True)
        for k in range(many):
            ending = endings[k % len(endings)]
            (parent / name / f"{k}.{ending}").write_bytes(encoded(100 * number + k, ending, (10 + k, 9)))
    return f"folder:{parent}"
