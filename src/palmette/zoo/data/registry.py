"""The data sets that a name can mean: one row each.

digits                     scikit-learn's 1797 images of 8×8
cifar10:FOLDER             the official archive, unpacked
folder:DIR                 images in a folder for each class
csv:FILE?target=COLUMN     a table of numbers
tokens:FILE?block=128      token ids, each block with its next tokens
hf:DIR                     an Arrow data set, by Hugging Face's datasets
package.module:name        a user's own map-style data set of (input, target), or that of a recipe
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from palmette.errors import Fault, InputError, expected_name, nearest
from palmette.zoo.data import arrow, cifar10, custom, digits, folder, table, tokens
from palmette.zoo.data.base import DataSet, Shape, data_error
from palmette.zoo.data.collated import recipe_sources
from palmette.zoo.data.transformed import Transform, TransformDecoder, TransformedSplit
from palmette.zoo.recipes.loading import load_recipe, names_recipe
from palmette.zoo.recipes.recipe import Recipe

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
    "folder": DataSetEntry(folder.load, argument="DIR"),
    "csv": DataSetEntry(table.load, argument="FILE"),
    "tokens": DataSetEntry(tokens.load, argument="FILE"),
    "hf": DataSetEntry(arrow.load, argument="DIR"),
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
    key = name.partition(":")[0]
    misspelt = nearest(key, DATA_SETS)
    if ":" in name and (argument.isidentifier() or misspelt is None):
        return recipe_data(load_recipe(name), name, shape) if names_recipe(name, "data") else custom.load(name, shape)
    raise InputError(Fault("data", name, expected_name(key, "data set", list(DATA_SETS) if misspelt else usages())))


def recipe_data(recipe: Recipe, name: str, input_shape: Sequence[int]) -> DataSet:
    """The data of a recipe, called ``name``, for a network that takes ``input_shape``.

    Raises:
        InputError: it is no data set, or its items or shape are not usable.
    """
    if isinstance(recipe.data, str):
        if recipe.collate is not None:
            raise data_error(recipe.data, "has samples of one size, and nothing to collate; expected no collate")
        return load_data(recipe.data, input_shape)
    sources, shape = recipe_sources(name, recipe), tuple(input_shape)
    if recipe.transform is None:
        return custom.of_sources(name, shape, sources)
    raw = custom.of_sources(name, custom.first_shape(name, sources), sources)
    find = partial(recipe_transform, name) if ":" in name else None
    train, held_out = (
        TransformedSplit(each, TransformDecoder(name, each.decoder, shape, recipe.transform, find))
        for each in (raw.train, raw.held_out)
    )
    _ = train[0], held_out[0]  # a wrong shape is found now, not after the workers have started
    return replace(raw, train=train, held_out=held_out)


def recipe_transform(name: str) -> Transform:
    """The transform of a recipe that has one."""
    transform = load_recipe(name).transform
    assert transform is not None
    return transform


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
