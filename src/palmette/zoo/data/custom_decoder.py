"""Calls a user's own ``decode``, also on nodes that do not have the data set.

A decoder travels without the data set: it knows where ``decode`` can be imported from. A method that needs its object
cannot be imported; where it is first called, the data set is made again by its name.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from palmette.zoo.data.base import LabelTree, Shape, data_error
from palmette.zoo.data.custom_source import (
    call_user,
    checked_shape,
    has_parameter,
    named_sources,
    require_dtype,
)
from palmette.zoo.data.item_format import item_tensors
from palmette.zoo.import_callable import import_object

Decode = Callable[..., Any]
Item = tuple[Tensor, LabelTree]
"""An input, and its label where that is stored with it."""


@dataclass(eq=False)
class CustomDecoder:
    """Calls ``decode`` sample by sample; pickled, it holds no more than names.

    ``name`` and ``train`` say how the data set was made. ``path`` is where ``decode`` can be imported from,
    ``module:name``, or None where it needs the data set. ``function`` is ``decode`` itself, once it was found.
    """

    name: str
    train: bool | None
    path: str | None
    shape: Shape
    dtype: torch.dtype
    takes_seed: bool
    function: Decode | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "function": None}

    def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
        """Inputs, N × ``shape``.

        Raises:
            InputError: ``decode`` cannot be found, fails, or returns something else.
        """
        drawn = [None] * len(stored) if seeds is None else seeds
        return self.stack([self.item(each, seed)[0] for each, seed in zip(stored, drawn, strict=True)])

    def item(self, stored: bytes, seed: int | None = None, name: str | None = None) -> Item:
        """One item; ``name`` is what errors call it."""
        if self.function is None:
            self.function = self._find()
        options = {"seed": seed} if self.takes_seed else {}
        item = _decoded(self.function, stored, name or self.name, self.shape, **options)
        require_dtype(item[0], name or self.name, self.dtype)
        return item

    def stack(self, inputs: Sequence[Tensor]) -> Tensor:
        """Inputs as one tensor."""
        return torch.stack(list(inputs)) if inputs else torch.empty(0, *self.shape, dtype=self.dtype)

    def _find(self) -> Decode:
        if self.path is None:
            sources = named_sources(self.name)
            decode: Decode = (sources.held_out if self.train is False else sources.train).decode
            return decode
        import_object(self.name, "data")  # modules in the current folder are found from here on
        found = imported(self.path)
        if found is None:
            raise data_error(self.name, f"its decode is not at {self.path}; expected the same modules on every node")
        return found


def first_item(decode: Decode, stored: bytes, name: str, shape: Shape) -> Item:
    """What ``decode`` makes of the first sample, by which its dtype and whether it stores labels are known.

    Raises:
        InputError: it fails, or returns something else.
    """
    return _decoded(decode, stored, name, shape, **({"seed": None} if has_parameter(decode, "seed") else {}))


def _decoded(decode: Decode, stored: bytes, name: str, shape: Shape, **options: int | None) -> Item:
    found = call_user(name, "decode", decode, stored, **options)
    inputs, label = found if isinstance(found, tuple | list) and len(found) == 2 else (found, None)
    if not isinstance(inputs, Tensor):
        raise data_error(name, f"decode returned a {type(found).__name__}; expected a tensor or (tensor, label)")
    return checked_shape(inputs, name, shape), None if label is None else item_tensors(label, name)


def importable_path(source: Any) -> str | None:
    """Where any process finds a data set's ``decode``, as ``module:name``; None for a method that needs its object."""
    decode, kind = source.decode, type(source)
    paths = [f"{kind.__module__}:{kind.__qualname__}.decode"]
    if hasattr(decode, "__module__") and hasattr(decode, "__qualname__"):
        paths.append(f"{decode.__module__}:{decode.__qualname__}")
    return next((path for path in paths if imported(path) == decode), None)


def imported(path: str) -> Decode | None:
    """The function at ``module:name``; None where there is none."""
    module, _, name = path.partition(":")
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    return found if callable(found) else None
