"""What instances keep from forward to backward, also of passes that go back part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from palmette.cost.sizes import Run
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.data.base import LabelTree
from palmette.zoo.recipes.loss import LossTotal

Ties = dict[int, list[Tensor]]
"""The weights that several layers use, or their gradients, by number."""


class SavedForward:
    """What an instance keeps from forward to backward, of all its layers or of a part of them."""

    __slots__ = ("inputs", "labels", "lost", "outputs", "run", "ties")

    def __init__(self, run: Run, inputs: Bundle, outputs: Any, labels: LabelTree, ties: Ties | None = None) -> None:
        self.run, self.inputs, self.outputs, self.labels = run, inputs, outputs, labels
        self.ties = ties or {}
        """Of a part: views of the ties that it uses, made after its outputs, so that autograd begins with them."""
        self.lost: LossTotal | None = None
        """The loss of a root, where it was needed before backward."""


@dataclass
class PartedPass(ABC):
    """A backward pass part by part: the gradient of the input of the last part, and gradients of several parts.

    There is no such gradient before the first of them is done. ``gradients`` are those of weights that several parts
    use (ties), so far: each part adds its own to them use by use, last layers first, as autograd does where a pass is
    not divided, so that the sum has the same bits.
    """

    gradient: Bundle | None = field(default=None, kw_only=True)
    gradients: Ties = field(default_factory=dict, kw_only=True)

    @property
    @abstractmethod
    def parts_left(self) -> int:
        """How many parts are still to come."""

    def next_saved(self) -> SavedForward | None:
        """What was kept of the next part; None where that is computed again."""
        return None

    def ends(self, kept: SavedForward, outputs: Bundle, gradients: Bundle) -> tuple[Bundle, Bundle]:
        """Where the backward of a part begins, and the gradients there: with those of ties so far."""
        known = [number for number in kept.ties if number in self.gradients]
        ties = [view for number in known for view in kept.ties[number]]
        so_far = [own for number in known for own in self.gradients[number]]
        return (*outputs, *ties), (*gradients, *so_far)


@dataclass
class BucketedPass(PartedPass):
    """A pass of an instance whose gradients leave in buckets: what was kept of the parts that are left."""

    saved: list[SavedForward]

    @property
    def parts_left(self) -> int:
        """Those before the one that goes back."""
        return len(self.saved)

    def next_saved(self) -> SavedForward:
        """What was kept of the last part that is left."""
        return self.saved.pop()
