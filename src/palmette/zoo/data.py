"""Data sets by name, ready for a network of a given input shape.

    digits                     scikit-learn's 1797 images of 8×8
    cifar10:FOLDER             the official archive, unpacked
    package.module:callable    a map-style data set of (tensor, label) of the user's own

Images stay in memory as bytes and become normalised floats of the network's shape batch by batch, so
50,000 images for a 224×224 network need no more than their 150 MB. What a sample becomes depends on the
sample alone, never on the batch it is fetched with.
"""

from __future__ import annotations

import gzip
import importlib.util
import inspect
import operator
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palmette.errors import Fault, InputError, expected_name
from palmette.zoo import cifar
from palmette.zoo.imported import imported

Indices = Sequence[int] | NDArray[np.integer[Any]] | Tensor

# Channel means and deviations of CIFAR-10's 50,000 training images, in units of full brightness.
CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_DEVIATION = (0.2470, 0.2435, 0.2616)

DIGITS_SCALE = 16  # the digits' brightest value
# The digits come writer by writer: the last 297 are mostly in hands that the first 1500 do not show.
DIGITS_TRAIN = 1500
# A user's single data set is shuffled once, by this seed, and every tenth sample held out.
SPLIT_SEED = 0
HELD_OUT_SHARE = 10


class Part(Protocol):
    """Samples that can be fetched by number, alone or many at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Tensor, int]: ...

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs (N × the network's input shape, float) and labels (N integers)."""
        ...


@dataclass(frozen=True)
class DataSet:
    """What to train on and what to judge by; ``classes`` is None where the data does not tell."""

    name: str
    train: Part
    held_out: Part
    classes: int | None


@dataclass(frozen=True, eq=False)
class Joined:
    """Several parts, one after the other."""

    parts: Sequence[Part]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        inputs, labels = self.batch([index])
        return inputs[0], int(labels[0])

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs and labels, in the order asked for."""
        at = torch.as_tensor(indices, dtype=torch.long)
        ends = torch.tensor([len(part) for part in self.parts]).cumsum(0)
        which = torch.bucketize(at, ends, right=True)
        places = [(which == k).nonzero().flatten() for k in range(len(self.parts))]
        found = [
            part.batch(at[place] - (int(end) - len(part)))
            for part, place, end in zip(self.parts, places, ends, strict=True)
            if len(place)
        ]
        order = torch.argsort(torch.cat(places))
        return torch.cat([inputs for inputs, _ in found])[order], torch.cat([labels for _, labels in found])[order]


def joined(sets: Sequence[DataSet]) -> DataSet:
    """Several data sets as one; of classes as many as the one with the most says."""
    if len(sets) == 1:
        return sets[0]
    known = [each.classes for each in sets if each.classes is not None]
    return DataSet(
        name=" + ".join(each.name for each in sets),
        train=Joined([each.train for each in sets]),
        held_out=Joined([each.held_out for each in sets]),
        classes=max(known, default=None),
    )


def load_data(name: str, input_shape: Sequence[int]) -> DataSet:
    """The data set of that name for a network that takes ``input_shape`` (without the batch).

    Raises:
        InputError: no such data set, or its files, items or shape are not usable.
    """
    shape = tuple(input_shape)
    kind, colon, rest = name.partition(":")
    if name == "digits":
        return _digits(shape)
    if kind == "cifar10":
        return _cifar10(name, Path(rest or "."), shape)
    if colon:
        return _own(name, shape)
    raise InputError(Fault("data", name, expected_name(name, "data set", ["digits", "cifar10:FOLDER"])))


@dataclass(frozen=True, eq=False)
class Images:
    """Images in memory, N×c×h×w bytes, handed out as ``scale`` · bytes + ``shift`` in ``shape``."""

    pixels: Tensor
    labels: Tensor
    shape: tuple[int, ...]
    scale: Tensor
    shift: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        inputs, labels = self.batch([index])
        return inputs[0], int(labels[0])

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs (N × ``shape``, float32, normalised) and labels (N integers)."""
        at = torch.as_tensor(indices, dtype=torch.long)
        images = torch.addcmul(self.shift, self.scale, self.pixels.index_select(0, at).float())
        if self.shape[0] == 1:
            images = images.mean(dim=1, keepdim=True)
        if images.shape[2:] != self.shape[1:]:
            images = torch.nn.functional.interpolate(
                images, self.shape[1:], mode="bilinear", align_corners=False, antialias=True
            )
        return images.expand(-1, self.shape[0], -1, -1).contiguous(), self.labels[at]


@dataclass(frozen=True, eq=False)
class Items:
    """Some samples of a user's own map-style data set."""

    name: str
    source: Any
    numbers: Sequence[int]
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        number = self.numbers[index]
        name = f"{self.name}[{number}]"
        try:
            item = self.source[number]
        except Exception as error:
            raise _fault(name, f"fetching it failed: {type(error).__name__}: {error}") from error
        return _checked(item, name, self.shape)

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs (N × ``shape``) and labels (N integers).

        Raises:
            InputError: an item is not a tensor of the network's shape with a label.
        """
        items = [self[index] for index in torch.as_tensor(indices).tolist()]
        inputs = torch.stack([inputs for inputs, _ in items]) if items else torch.empty(0, *self.shape)
        return inputs, torch.tensor([label for _, label in items], dtype=torch.long)


def _digits(shape: tuple[int, ...]) -> DataSet:
    _require_images("digits", shape, channels=1)
    images, labels = _digits_table()
    pixels = torch.from_numpy(images.astype(np.uint8)).reshape(-1, 1, 8, 8)
    deviation, mean = torch.std_mean(pixels[:DIGITS_TRAIN] / DIGITS_SCALE)
    normal = _normal(DIGITS_SCALE, mean, deviation)
    targets = torch.from_numpy(labels.astype(np.int64))
    train = Images(pixels[:DIGITS_TRAIN], targets[:DIGITS_TRAIN], shape, *normal)
    held_out = Images(pixels[DIGITS_TRAIN:], targets[DIGITS_TRAIN:], shape, *normal)
    return DataSet("digits", train, held_out, classes=10)


def _digits_table() -> tuple[NDArray[Any], NDArray[Any]]:
    """Pixels and labels from scikit-learn's own file: to import the package takes every worker a second and 80 MB."""
    found = importlib.util.find_spec("sklearn")
    folder = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    try:
        with gzip.open(folder / "datasets" / "data" / "digits.csv.gz", "rt", encoding="utf-8") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
        return table[:, :-1], table[:, -1]
    except OSError:  # another version may keep it elsewhere
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        return images, labels


def _cifar10(name: str, folder: Path, shape: tuple[int, ...]) -> DataSet:
    _require_images(name, shape, channels=cifar.SHAPE[0])
    normal = _normal(255, torch.tensor(CIFAR10_MEAN), torch.tensor(CIFAR10_DEVIATION))
    train, held_out = (
        Images(torch.tensor(part.pixels), torch.tensor(part.labels), shape, *normal)
        for part in cifar.read_cifar10(folder.expanduser())
    )
    return DataSet(name, train, held_out, classes=cifar.CLASSES)


def _normal(full: int, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and shift that bring bytes up to ``full`` into [0, 1] and then to mean 0 and deviation 1."""
    return (1 / (full * deviation)).reshape(-1, 1, 1), (-mean / deviation).reshape(-1, 1, 1)


def _require_images(name: str, shape: tuple[int, ...], channels: int) -> None:
    """Refuse a network that does not take such images, as they are, in grey, or repeated from grey."""
    if len(shape) != 3 or min(shape) < 1:
        raise _fault(name, f"holds images; the network takes {_times(shape)}, not channels × height × width")
    if channels != 1 and shape[0] not in {1, channels}:
        raise _fault(name, f"has {channels} channels, the network takes {shape[0]}; expected 1 or {channels}")


def _own(name: str, shape: tuple[int, ...]) -> DataSet:
    make = imported(name, "data")
    if "train" in inspect.signature(make).parameters:
        sources = [_made(name, make, train=True), _made(name, make, train=False)]
        train, held_out = (Items(name, source, range(len(source)), shape) for source in sources)
    else:
        sources = [_made(name, make)]
        train, held_out = _split(name, sources[0], shape)
    for part in (train, held_out):
        _ = part[0]  # a wrong shape is found now, not after the workers have started
    return DataSet(name, train, held_out, _classes(sources[0]))


def _made(name: str, make: Callable[..., Any], **options: bool) -> Any:
    """What the user's callable returns, if it is a data set with something in it."""
    try:
        source = make(**options)
    except Exception as error:
        raise _fault(name, f"calling it failed: {type(error).__name__}: {error}") from error
    if not hasattr(source, "__len__") or not hasattr(source, "__getitem__"):
        expected = f"returned a {type(source).__name__}; expected a data set with __len__ and __getitem__"
        raise _fault(name, expected)
    if len(source) == 0:
        raise _fault(name, "returned an empty data set; expected samples")
    return source


def _split(name: str, source: Any, shape: tuple[int, ...]) -> tuple[Items, Items]:
    if len(source) < HELD_OUT_SHARE:
        raise _fault(name, f"has {len(source)} samples; expected {HELD_OUT_SHARE}, to hold one out")
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(SPLIT_SEED)).tolist()
    held_out = sorted(order[: len(source) // HELD_OUT_SHARE])
    train = sorted(order[len(source) // HELD_OUT_SHARE :])
    return Items(name, source, train, shape), Items(name, source, held_out, shape)


def _classes(source: Any) -> int | None:
    """How many classes a data set says it has, in the way torchvision's do."""
    classes = getattr(source, "classes", None)
    if isinstance(classes, int):
        return classes
    return len(classes) if isinstance(classes, Sized) else None


def _checked(item: Any, name: str, shape: tuple[int, ...]) -> tuple[Tensor, int]:
    try:
        inputs, label = item
        target = operator.index(label)
    except (TypeError, ValueError):
        raise _fault(name, f"is a {type(item).__name__}; expected (tensor, label)") from None
    if not isinstance(inputs, Tensor):
        raise _fault(name, f"starts with a {type(inputs).__name__}; expected a tensor")
    if inputs.shape != shape:
        raise _fault(name, f"is a tensor of {_times(inputs.shape)}; the network takes {_times(shape)}")
    return inputs, target


def _times(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "a single number"


def _fault(name: str, expected: str) -> InputError:
    return InputError(Fault("data", name, expected))
