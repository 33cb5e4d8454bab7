"""The zoo's networks by name: a table that knows their defaults without importing torch.

Command-line help and error messages list names far more often than a network is built, so the table is
plain data and ``build`` imports the family's file only then. A family's file has one function per network,
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
class NetworkEntry:
    """A network's family (its file), its default input size and classes, and the min_size size it takes."""

    family: str
    size: int
    classes: int
    min_size: int


NETWORKS = {
    "lenet5": NetworkEntry("lenet", size=32, classes=10, min_size=16),
    "alexnet": NetworkEntry("alexnet", size=224, classes=1000, min_size=21),
    "vgg11": NetworkEntry("vgg", size=224, classes=1000, min_size=32),
    "vgg11small": NetworkEntry("vgg", size=32, classes=10, min_size=32),
    "vgg16": NetworkEntry("vgg", size=224, classes=1000, min_size=32),
    "vgg19": NetworkEntry("vgg", size=224, classes=1000, min_size=32),
    "googlenet": NetworkEntry("googlenet", size=224, classes=1000, min_size=16),
    "resnet18": NetworkEntry("resnet", size=224, classes=1000, min_size=16),
    "resnet34": NetworkEntry("resnet", size=224, classes=1000, min_size=16),
    "mobilenet": NetworkEntry("mobilenet", size=224, classes=1000, min_size=16),
    "squeezenet": NetworkEntry("squeezenet", size=224, classes=1000, min_size=16),
    "nin": NetworkEntry("nin", size=32, classes=10, min_size=16),
    "cifar10": NetworkEntry("cifar10", size=32, classes=10, min_size=16),
}


def names() -> tuple[str, ...]:
    """The names of all networks of the zoo."""
    return tuple(NETWORKS)


def network_entry(name: str) -> NetworkEntry:
    """The row of ``name``.

    Raises:
        InputError: there is no such network.
    """
    if name not in NETWORKS:
        raise InputError(Fault("model", name, expected_name(name, "network of the zoo", names())))
    return NETWORKS[name]


def build(name: str, *, size: int | None = None, classes: int | None = None, channels: int = 3) -> nn.Sequential:
    """The network ``name`` for square images of ``size`` pixels per side, freshly initialised.

    Raises:
        InputError: there is no such network, or it cannot take images that small.
    """
    known = network_entry(name)
    size = known.size if size is None else size
    if size < known.min_size:
        raise InputError(Fault("size", size, f"{name} takes images of {known.min_size} pixels a side or more"))
    family = import_module(f"{__package__}.{known.family}")
    network: nn.Sequential = getattr(family, name)(size, known.classes if classes is None else classes, channels)
    return network
