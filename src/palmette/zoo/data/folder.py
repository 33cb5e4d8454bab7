"""``folder:DIR``: images in a folder for each class, stored as they lie on the disk.

    DIR/cat/1.jpg   DIR/dog/rex/2.png          every tenth image is held out
    DIR/train/cat/1.jpg   DIR/val/cat/7.jpg    val, valid or test is held out

Classes are numbered in the order of their names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from palmette.errors import listed
from palmette.zoo.data.base import DataSet, Indices, Shape
from palmette.zoo.data.compressed import CompressedImageDecoder, require_network_of_images, require_whole
from palmette.zoo.data.decoded import DecodedSplit
from palmette.zoo.data.files import file_error, require_folder
from palmette.zoo.data.sampling import hold_out, spread

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
TRAINING = "train"
HELD_OUT = ("val", "valid", "test")
# All images, or so many if there are more, are looked at when the data is loaded; the others when they are sent.
CHECKED_IMAGES = 1000


@dataclass(frozen=True, eq=False)
class FolderSplit(DecodedSplit):
    """Some images by their files, and the number of each one's class."""

    name: str
    files: Sequence[str]
    classes: Tensor
    shape: Shape

    def __len__(self) -> int:
        return len(self.files)

    @property
    def decoder(self) -> CompressedImageDecoder:
        """What turns files into inputs."""
        return CompressedImageDecoder(self.shape)

    @cached_property
    def sample_bytes(self) -> float:
        """The mean size of a file, of a thousand at most."""
        chosen = spread(len(self), CHECKED_IMAGES)
        return sum(Path(self.files[index]).stat().st_size for index in chosen) / len(chosen)

    def stored(self, indices: Indices) -> list[bytes]:
        """Files, byte by byte.

        Raises:
            InputError: one cannot be read, or is no image.
        """
        return [self._read(self.files[index]) for index in torch.as_tensor(indices).tolist()]

    def labels(self, indices: Indices) -> Tensor:
        """The classes of images."""
        return self.classes[torch.as_tensor(indices, dtype=torch.long)]

    def check(self) -> None:
        """Read the images, a thousand at most.

        Raises:
            InputError: one cannot be read, or is no image.
        """
        for index in spread(len(self), CHECKED_IMAGES):
            self._read(self.files[index])

    @staticmethod
    def _read(file: str) -> bytes:
        try:
            data = Path(file).read_bytes()
        except OSError as error:
            raise file_error(file, "cannot be read", f"{error.strerror}; expected an image") from error
        return require_whole(data, file)


def load(name: str, folder: str, shape: Shape) -> DataSet:
    """The images in a folder, the current one by default.

    Raises:
        InputError: it has no classes, or one of them no images; an image or the network's shape is not usable.
    """
    require_network_of_images(name, shape)
    train_folder, held_out_folder = _find_parts(require_folder(folder or "."))
    classes = _class_folders(train_folder)
    train = FolderSplit(name, *_images(train_folder, classes, classes), shape)
    if held_out_folder is None:
        train, held_out = (_only(train, numbers) for numbers in hold_out(name, len(train)))
    else:
        held_out = FolderSplit(name, *_images(held_out_folder, _class_folders(held_out_folder), classes), shape)
    for split in (train, held_out):
        split.check()
    return DataSet(name, train, held_out, classes=len(classes))


def _find_parts(folder: Path) -> tuple[Path, Path | None]:
    """Where the images to train on are, and those to evaluate on, if they are apart."""
    inside = _class_folders(folder)
    apart = next((part for part in HELD_OUT if part in inside), None)
    if TRAINING in inside and apart is not None:
        return folder / TRAINING, folder / apart
    return (folder / TRAINING if inside == [TRAINING] else folder), None


def _class_folders(folder: Path) -> list[str]:
    """The names of the folders in a folder, in their order.

    Raises:
        InputError: there is none.
    """
    try:
        found = sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))
    except OSError as error:
        raise file_error(folder, "cannot be read", f"{error.strerror}; expected a folder for each class") from error
    if not found:
        raise file_error(folder, "no classes", "expected a folder for each class, with its images")
    return found


def _images(folder: Path, names: Sequence[str], classes: Sequence[str]) -> tuple[list[str], Tensor]:
    """The images in folders of these names, and the number of each one's class."""
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise file_error(folder / unknown[0], "no such class", f"expected those to train on: {listed(classes)}")
    files, numbers = [], []
    for name in names:
        found = _image_files(folder / name)
        files += found
        numbers += [classes.index(name)] * len(found)
    return files, torch.tensor(numbers, dtype=torch.long)


def _image_files(folder: Path) -> list[str]:
    """The images in a folder and those below it, in the order of their names.

    Raises:
        InputError: there is none.
    """
    found = [
        str(Path(where, file))
        for where, _, files in os.walk(folder)
        for file in files
        if file.lower().endswith(ENDINGS) and not file.startswith(".")
    ]
    if not found:
        raise file_error(folder, "no images", f"expected some ({', '.join(ENDINGS[:3])} …)")
    return sorted(found)


def _only(split: FolderSplit, numbers: Sequence[int]) -> FolderSplit:
    return FolderSplit(split.name, [split.files[k] for k in numbers], split.labels(numbers), split.shape)
