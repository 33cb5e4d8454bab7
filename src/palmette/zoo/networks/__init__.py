"""The zoo's networks by name: a table that knows their defaults without importing torch.

Command-line help and error messages list names far more often than a network is built, so the table is
plain data and ``build`` imports the family's file only then. A family's file has one function a network,
``name(size, classes, channels)``, which returns an ``nn.Sequential`` whose children are its layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from palmette.errors import Fault, InputError, expected_name

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Entry:
    """A network's family (its file), its default input size and classes, and the smallest size it takes."""

    family: str
    size: int
    classes: int
    smallest: int


ZOO = {
    "lenet5": Entry("lenet", size=32, classes=10, smallest=16),
    "alexnet": Entry("alexnet", size=224, classes=1000, smallest=21),
    "vgg11": Entry("vgg", size=224, classes=1000, smallest=32),
    "vgg11small": Entry("vgg", size=32, classes=10, smallest=32),
    "vgg16": Entry("vgg", size=224, classes=1000, smallest=32),
    "vgg19": Entry("vgg", size=224, classes=1000, smallest=32),
    "googlenet": Entry("googlenet", size=224, classes=1000, smallest=16),
    "resnet18": Entry("resnet", size=224, classes=1000, smallest=16),
    "resnet34": Entry("resnet", size=224, classes=1000, smallest=16),
    "mobilenet": Entry("mobilenet", size=224, classes=1000, smallest=16),
    "squeezenet": Entry("squeezenet", size=224, classes=1000, smallest=16),
    "nin": Entry("nin", size=32, classes=10, smallest=16),
    "cifar10": Entry("cifar10", size=32, classes=10, smallest=16),
}


def names() -> tuple[str, ...]:
    """The names of all networks of the zoo."""
    return tuple(ZOO)


def entry(name: str) -> Entry:
    """The table's line for ``name``.

    Raises:
        InputError: there is no such network.
    """
    if name not in ZOO:
        raise InputError(Fault("model", name, expected_name(name, "network of the zoo", names())))
    return ZOO[name]


def build(name: str, *, size: int | None = None, classes: int | None = None, channels: int = 3) -> nn.Sequential:
    """The network ``name`` for square images of ``size`` pixels a side, freshly initialised.

    Raises:
        InputError: there is no such network, or it cannot take images that small.
    """
    known = entry(name)
    size = known.size if size is None else size
    if size < known.smallest:
        raise InputError(Fault("size", size, f"{name} takes images of {known.smallest} pixels a side or more"))
    family = import_module(f"{__name__}.{known.family}")
    network: nn.Sequential = getattr(family, name)(size, known.classes if classes is None else classes, channels)
    return network
