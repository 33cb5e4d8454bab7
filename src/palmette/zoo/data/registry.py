"""The data sets that a name can mean: one row each.

digits                     scikit-learn's 1797 images of 8×8
cifar10:FOLDER             the official archive, unpacked
package.module:callable    a user's own map-style data set of (tensor, label)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from palmette.errors import Fault, InputError, expected_name
from palmette.zoo.data import cifar10, custom, digits
from palmette.zoo.data.base import DataSet, Shape

Load = Callable[[str, str, Shape], DataSet]
"""From the whole name, what stands behind its colon, and the network's input shape."""


@dataclass(frozen=True)
class DataSetEntry:
    """How a data set is loaded; ``argument`` names what may stand behind a colon, None where nothing may."""

    load: Load
    argument: str | None = None


DATA_SETS = {
    "digits": DataSetEntry(digits.load),
    "cifar10": DataSetEntry(cifar10.load, argument="FOLDER"),
}


def load_data(name: str, input_shape: Sequence[int]) -> DataSet:
    """The data set of that name for a network that takes ``input_shape`` (without the batch).

    Raises:
        InputError: no such data set, or its files, items or shape are not usable.
    """
    shape = tuple(input_shape)
    entry, argument = find_entry(name)
    if entry is not None:
        return entry.load(name, argument, shape)
    if ":" in name:
        return custom.load(name, shape)
    raise InputError(Fault("data", name, expected_name(name, "data set", usages())))


def find_entry(name: str) -> tuple[DataSetEntry | None, str]:
    """The row that a name means, if any, and what stands behind its colon."""
    key, colon, argument = name.partition(":")
    entry = DATA_SETS.get(key)
    return (entry, argument) if entry and (entry.argument or not colon) else (None, argument)


def public_name(name: str) -> str:
    """The name for a record that others read: without the path of a folder."""
    entry, _ = find_entry(name)
    return name if entry is None else name.partition(":")[0]


def usages() -> list[str]:
    """How the name of each data set is written."""
    return [f"{name}:{entry.argument}" if entry.argument else name for name, entry in DATA_SETS.items()]
