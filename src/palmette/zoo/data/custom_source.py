"""A user's own data set by its name: imported, called, and what it returns, checked.

What is wrong with a sample is one line that names the sample.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from palmette.errors import InputError
from palmette.zoo.data.base import LabelTree, Shape, data_error, format_shape
from palmette.zoo.data.item_format import item_tensors
from palmette.zoo.import_callable import import_callable
from palmette.zoo.recipes.loading import load_recipe, names_recipe
from palmette.zoo.user_code import user_error

_LABELS = ("labels", "label")


class Sources(NamedTuple):
    """What to train on, and what is held out; None if that is to be taken from the other."""

    train: Any
    held_out: Any = None


def named_sources(name: str) -> Sources:
    """The data set that ``package.module:name`` means: a recipe's, or what a callable returns.

    Raises:
        InputError: it cannot be imported or called, or returns no data set, or an empty one.
    """
    found = load_recipe(name).data if names_recipe(name, "data") else import_callable(name, "data")
    return find_sources(name, found)


def find_sources(name: str, data: Any) -> Sources:
    """The data set that a user gives: itself, a pair, or a callable that returns one.

    Raises:
        InputError: it cannot be called, or is no data set, or an empty one.
    """
    if _is_data_set(name, data):
        return Sources(_checked_source(name, data))
    if isinstance(data, tuple | list) and len(data) == 2:
        return Sources(*(_checked_source(name, each) for each in data))
    if not callable(data):
        raise data_error(name, f"is a {type(data).__name__}; expected a data set with __len__ and __getitem__")
    if has_parameter(data, "train"):
        made = (call_user(name, "calling it", data, train=train) for train in (True, False))
        return Sources(*(_checked_source(name, each) for each in made))
    made = call_user(name, "calling it", data)
    return find_sources(name, made) if isinstance(made, tuple) else Sources(_checked_source(name, made))


def _is_data_set(name: str, value: Any) -> bool:
    """Whether a value is a map-style data set; a class is none, though its objects may be."""
    if isinstance(value, type | tuple | list):
        return False
    return hasattr(value, "__len__") and (hasattr(value, "__getitem__") or has_stored(name, value))


def _checked_source(name: str, source: Any) -> Any:
    if not hasattr(source, "__len__") or not (hasattr(source, "__getitem__") or has_stored(name, source)):
        expected = f"returned a {type(source).__name__}; expected a data set with __len__ and __getitem__"
        raise data_error(name, expected)
    if len(source) == 0:
        raise data_error(name, "returned an empty data set; expected samples")
    return source


def has_stored(name: str, source: Any) -> bool:
    """Whether a data set says how its samples are stored, and how they are decoded.

    Raises:
        InputError: it has ``stored`` without ``decode``.
    """
    if not callable(getattr(source, "stored", None)):
        return False
    if not callable(getattr(source, "decode", None)):
        raise data_error(name, "has stored but no decode; expected both or neither")
    return True


def has_parameter(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function has a parameter of that name."""
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C do not say
        return False


def call_user(name: str, what: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a user's function returns.

    Raises:
        InputError: it fails; says ``what`` does.
    """
    try:
        return function(*arguments, **options)
    except InputError:
        raise
    except Exception as error:
        raise data_error(name, f"{what} failed: {user_error(error)}") from error


def fetched_item(source: Any, number: int, name: str, shape: Shape) -> tuple[Tensor, LabelTree]:
    """An item of a map-style data set: an input of ``shape`` and its label.

    Raises:
        InputError: it is something else.
    """
    inputs, label = fetched_pair(source, number, name)
    if not isinstance(inputs, Tensor):
        raise data_error(name, f"starts with a {type(inputs).__name__}; expected a tensor")
    return checked_shape(inputs, name, shape), label


def fetched_pair(source: Any, number: int, name: str) -> tuple[Any, LabelTree]:
    """An item of a map-style data set: anything, and its label; a tensor alone has none.

    That of a dict is what it has under ``labels`` or ``label``, as the data sets of transformers have it.

    Raises:
        InputError: it is something else.
    """
    item = call_user(name, "fetching it", _item, source, number)
    if isinstance(item, Tensor):
        return item, None
    if isinstance(item, Mapping):
        return _fetched_dict(item, name)
    if not isinstance(item, tuple | list) or len(item) != 2:
        size = f" of {len(item)}" if isinstance(item, tuple | list) else ""
        raise data_error(name, f"is a {type(item).__name__}{size}; expected (input, target)")
    return item[0], item_tensors(item[1], name)


def _item(source: Any, number: int) -> Any:
    """An item, with tensors in place of NumPy's arrays, as PyTorch's own collate function has it."""
    return tree_map_only(np.ndarray, lambda array: torch.from_numpy(array.copy()), source[number])


def _fetched_dict(item: Mapping[str, Any], name: str) -> tuple[dict[str, Any], LabelTree]:
    """The inputs of an item by their names, and its label."""
    inputs = {key: value for key, value in item.items() if key not in _LABELS}
    if not inputs:
        raise data_error(name, "is a dict without inputs; expected them by the names of the network's arguments")
    label = next((item[key] for key in _LABELS if key in item), None)
    return inputs, item_tensors(label, name)


def checked_shape(inputs: Tensor, name: str, shape: Shape) -> Tensor:
    """The tensor itself, on the CPU and without its history, if it has the network's shape."""
    if inputs.shape != shape:
        raise data_error(name, f"is a tensor of {format_shape(inputs.shape)}; the network takes {format_shape(shape)}")
    return inputs.detach().cpu()


def require_dtype(inputs: Tensor, name: str, dtype: object) -> None:
    """Refuse a sample of another dtype than the first: what it becomes would depend on its batch."""
    if inputs.dtype != dtype:
        raise data_error(name, f"is a tensor of {inputs.dtype}, the first sample of {dtype}; expected one dtype")


class KnownLabels:
    """The class numbers that were seen so far, so that no sample is fetched again for its label."""

    def __init__(self, samples: int) -> None:
        self._labels = np.zeros(samples, np.int64)
        self._known = np.zeros(samples, np.bool_)

    def add(self, index: int, label: LabelTree) -> LabelTree:
        """Keep a label if it is a class number; returns it."""
        if isinstance(label, Tensor) and label.dim() == 0 and label.dtype == torch.int64:
            self._labels[index], self._known[index] = int(label), True
        return label

    def get(self, index: int) -> Tensor | None:
        """The label of a sample, if it was seen."""
        return torch.tensor(self._labels[index]) if self._known[index] else None
