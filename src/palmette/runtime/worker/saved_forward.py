"""What instances keep from forward to backward, also of passes that go back part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from palmette.cost.sizes import Run
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.data.base import LabelTree
from palmette.zoo.recipes.loss import LossTotal


class SavedForward:
    """What an instance keeps from forward to backward, of all its layers or of a part of them."""

    __slots__ = ("inputs", "labels", "lost", "outputs", "run")

    def __init__(self, run: Run, inputs: Bundle, outputs: Any, labels: LabelTree) -> None:
        self.run, self.inputs, self.outputs, self.labels = run, inputs, outputs, labels
        self.lost: LossTotal | None = None
        """The loss of a root, where it was needed before backward."""


@dataclass
class PartedPass(ABC):
    """A backward pass part by part: the gradient of the input of the last part, and gradients of several parts.

    There is no such gradient before the first of them is done. ``gradients`` are those of weights that several parts
    use (ties), so far.
    """

    gradient: Bundle | None = field(default=None, kw_only=True)
    gradients: dict[int, list[Tensor]] = field(default_factory=dict, kw_only=True)

    @property
    @abstractmethod
    def parts_left(self) -> int:
        """How many parts are still to come."""

    def next_saved(self) -> SavedForward | None:
        """What was kept of the next part; None where that is computed again."""
        return None

    def add_gradients(self, gradients: Mapping[int, list[Tensor]]) -> None:
        """Add the gradients of a part; several parts of an instance may use one weight."""
        for number, own in gradients.items():
            before = self.gradients.get(number)
            self.gradients[number] = own if before is None else list(map(torch.add, before, own))


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
