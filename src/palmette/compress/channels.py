"""How small a network can be made: its groups of channels, and how many of each are left at a fraction removed.

Channels are removed one at a time, always from the group that would then have lost the least part, so that all become
narrower in proportion. The sequence of these cuts depends on the network alone. A fraction of its parameters means the
number of cuts that comes nearest to it, so that the shapes of a smaller network follow from the fraction, not from the
steps to it: 0.5 after 0.25 is as wide as 0.5 at once. The fraction really removed differs from the requested one by at
most half of what one channel holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from palmette.compress.tracing import cohorts, cut_channels, groups, root, skeleton, traceable, traced
from palmette.errors import Fault, InputError

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Channels:
    """A group of channels that go together, named by a layer; a cut takes one of each of its ``cohorts``."""

    layer: str
    width: int
    cohorts: int
    lost: Mapping[str, tuple[int, ...]]  # by how much each dimension of each weight shrinks with a cut


class PruningOrigin:
    """A network before anything was removed: its parameters, and the sequence of cuts that make it smaller."""

    def __init__(self, shapes: Shapes, found: Sequence[Channels]) -> None:
        self.groups = tuple(found)
        names, most = list(shapes), max((len(shape) for shape in shapes.values()), default=1)
        self._sides = np.ones((len(names), most))
        self._lost = np.zeros((len(names), most, len(found)))
        for row, name in enumerate(names):
            self._sides[row, : len(shapes[name])] = shapes[name]
            for k, group in enumerate(found):
                if name in group.lost:
                    self._lost[row, : len(shapes[name]), k] = group.lost[name]
        cuts = sorted((cut / g.width, k) for k, g in enumerate(found) for cut in range(1, g.width))
        self._sequence = np.array([k for _, k in cuts], dtype=int)
        self.parameters = self._left(self._cuts(0))

    @property
    def most(self) -> float:
        """The largest fraction of the parameters that can be removed."""
        return self.removed(len(self._sequence))

    def removed(self, cuts: int) -> float:
        """The fraction of the parameters that so many cuts remove."""
        return 1 - self._left(self._cuts(cuts)) / self.parameters if self.parameters else 0.0

    def cuts(self, fraction: float) -> int:
        """The number of cuts that come nearest to a fraction; of two as near, the smaller.

        Raises:
            InputError: no network is that small, or the fraction is none.
        """
        if not 0 <= fraction < 1:
            raise InputError(Fault("pruning", fraction, "expected a fraction from 0 to below 1"))
        if fraction > self.most:
            expected = f"the network cannot be pruned further than {_floor(self.most):g} of its parameters"
            raise InputError(Fault("pruning", fraction, f"{expected}; expected at most that"))
        low, high = 0, len(self._sequence)
        while low < high:  # the first number of cuts that removes enough
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.removed(middle) < fraction else (low, middle)
        if low and fraction - self.removed(low - 1) <= self.removed(low) - fraction:
            return low - 1
        return low

    def widths(self, fraction: float) -> dict[str, int]:
        """How many channels of each cohort are left of each group, by its layer, at a fraction removed."""
        taken = self._cuts(self.cuts(fraction))
        return {group.layer: group.width - int(many) for group, many in zip(self.groups, taken, strict=True)}

    def _cuts(self, many: int) -> NDArray[np.int_]:
        return np.bincount(self._sequence[:many], minlength=len(self.groups))

    def _left(self, cuts: NDArray[np.int_]) -> int:
        return int(np.prod(self._sides - self._lost @ cuts, axis=1).sum())


def _floor(fraction: float) -> float:
    return int(fraction * 1e4) / 1e4


def pruning_origin(module: nn.Module, example: Tensor) -> PruningOrigin:
    """What can be removed from a network; ``example`` is a batch for it. The module is left as it is.

    Channels are only offered if the network still works without them and its output has the same shape.
    """
    refused: set[str] = set()
    while isinstance(found := _tried(module, example, refused), str):
        refused.add(found)
    return PruningOrigin(_shapes(module), found)


def _tried(module: nn.Module, example: Tensor, refused: set[str]) -> list[Channels] | str:
    """The groups of a network, each tried on a copy; or the first of them that cannot lose a channel."""
    copied, without = skeleton(module, example)
    with traceable(copied):
        graph = traced(copied, without)
        names: dict[nn.Module, str] = {inner: name for name, inner in copied.named_modules()}
        whole = groups(graph, [inner for inner, name in names.items() if name in refused])
        before = copied.eval()(without).shape
        found = []
        for group in whole:
            layer, parts = root(group), cohorts(graph, group)
            width = len(group[0].idxs) // parts
            if width < 2:
                continue
            old = _shapes(copied)
            try:
                cut = cut_channels(graph, layer, [part * width for part in range(parts)])
                with torch.no_grad():
                    works = cut and copied(without).shape == before and _tied_alike(module, copied)
            except Exception:  # noqa: BLE001  (whatever a module does without a channel, it cannot lose it)
                works = False
            if not works:
                return names[layer]
            found.append(Channels(names[layer], width, parts, _lost(old, _shapes(copied))))
    return found


def _shapes(module: nn.Module) -> Shapes:
    return {name: tuple(weight.shape) for name, weight in module.named_parameters()}


def _lost(before: Shapes, after: Shapes) -> dict[str, tuple[int, ...]]:
    gone = {n: tuple(a - b for a, b in zip(before[n], after[n], strict=True)) for n in before}
    return {name: sides for name, sides in gone.items() if any(sides)}


def _tied_alike(original: nn.Module, copied: nn.Module) -> bool:
    """Whether weights that are one in the original still have one shape in the copy."""
    shapes: dict[int, torch.Size] = {}
    now = dict(copied.named_parameters(remove_duplicate=False))
    return all(
        shapes.setdefault(id(weight), now[name].shape) == now[name].shape
        for name, weight in original.named_parameters(remove_duplicate=False)
    )
