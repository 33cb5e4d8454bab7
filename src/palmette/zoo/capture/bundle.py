"""Bundles: the tensors that go into a network, pass from one layer to the next, and come out.

A layer takes a bundle as its arguments and returns one tensor, or a tuple of them; the last one returns what the
module itself returns, a dict where that is a ``ModelOutput``. Every tensor has one row per sample, so that bundles of
different samples can be joined and divided. A gradient flows back only through floating-point tensors that something
before them learns from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from palmette.zoo.lengths import VaryingAxis, cut_to

Bundle = tuple[Tensor, ...]
Example = Tensor | Sequence[Tensor] | Mapping[str, Tensor]
"""What a module is called with: one tensor, several in order, or several by the names of its arguments."""


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a bundle: the shape of one sample, its dtype, and whether a gradient flows back through it.

    ``integers`` are those of one sample, where one was seen: a layer may fail on any others (a mask, lengths).
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    gradient: bool = True
    integers: Tensor | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, batch: Tensor, *, gradient: bool) -> TensorSpec:
        """What a tensor of some samples is like."""
        known = None if batch.is_floating_point() or batch.is_meta else batch[0].clone()
        return cls(tuple(batch.shape[1:]), batch.dtype, gradient, known)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class ModuleInput:
    """What a module is called with, as a bundle; ``names`` are those of its arguments, none if they go by position.

    ``varying`` are the axes that are longer in some batches than in others.
    """

    tensors: Bundle
    names: tuple[str, ...] = ()
    varying: tuple[VaryingAxis, ...] = ()

    def batch(self, samples: int, shorter: int = 0) -> Bundle:
        """So many samples: those that are there, over and over; cut shorter by so many, every length by one more."""
        rows = torch.arange(samples) % len(self.tensors[0])
        tensors = tuple(tensor[rows] for tensor in self.tensors)
        if not shorter:
            return tensors
        return self.cut_to({n: max(1, size - shorter - n) for n, size in self.lengths.items()}, tensors)

    @property
    def lengths(self) -> dict[int, int]:
        """The lengths that vary, as they are here, by their numbers."""
        return {each.length: self.tensors[each.tensor].shape[each.axis] for each in self.varying}

    def cut_to(self, lengths: Mapping[int, int], tensors: Bundle | None = None) -> Bundle:
        """The tensors, or others like them, cut to lengths."""
        return tuple(cut_to(self.tensors if tensors is None else tensors, self.varying, lengths))

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """What its tensors are like."""
        return tuple(TensorSpec.of(each, gradient=False) for each in self.tensors)


def module_input(example: Example, varying: Sequence[VaryingAxis] = ()) -> ModuleInput:
    """An example of what a module is called with, as a bundle, and which of its axes vary."""
    if isinstance(example, Mapping):
        return ModuleInput(tuple(example.values()), tuple(example), tuple(varying))
    return ModuleInput((example,) if isinstance(example, Tensor) else tuple(example), varying=tuple(varying))


def as_bundle(value: Any, names: Sequence[str] = ()) -> Bundle:
    """All tensors of a value, in order; of a dict, in the order of ``names`` if there are any."""
    if isinstance(value, Tensor):
        return (value,)
    if isinstance(value, Mapping):
        return tuple(each for name in (names or value) for each in as_bundle(value[name]))
    return tuple(each for part in value for each in as_bundle(part))


def plain_structure(value: Any) -> Any:
    """What a module returned, in plain tuples and dicts, without entries that are None; a dataclass is a dict."""
    if is_dataclass(value) and not isinstance(value, (type, Mapping)):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain_structure(each) for key, each in value.items() if each is not None}
    if isinstance(value, (tuple, list)):
        return tuple(plain_structure(each) for each in value if each is not None)
    return value


class LayerChain(nn.Sequential):
    """Layers one after the other, each with the bundle that the one before returns."""

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        super().__init__(*modules)

    def forward(self, *bundle: Tensor) -> Any:
        """What the last one returns."""
        value: Any = bundle
        for module in self:
            value = module(*as_bundle(value))
        return value
