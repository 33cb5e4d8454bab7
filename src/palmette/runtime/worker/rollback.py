"""What a node's layers were before the iteration that goes on, in case it cannot be finished.

When a node is lost, some of the others have updated their weights and some have not. Each keeps a copy from the
beginning of the iteration, so that together they can go back to where all were the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

State = tuple[Mapping[str, Tensor], Mapping[str, Tensor]]


class Keepsake:
    """A copy of weights, buffers and optimizer state, renewed at the first call of every iteration."""

    def __init__(self, current: Callable[[], State]) -> None:
        self._current, self._lock = current, threading.Lock()
        self._iteration: int | None = None
        self._weights: dict[str, Tensor] = {}
        self._optimizer: dict[str, Tensor] = {}

    def begin(self, iteration: int) -> None:
        """Copy what is there, unless that was done in this iteration; before anything changes."""
        with self._lock:
            if iteration != self._iteration:
                weights, optimizer = self._current()
                _copy(weights, self._weights)
                _copy(optimizer, self._optimizer)
                self._iteration = iteration

    def after(self, iteration: int) -> State:
        """The state after an iteration that all have done: now, or at the beginning of the next."""
        with self._lock:
            return (self._weights, self._optimizer) if self._iteration == iteration + 1 else self._current()


def _copy(found: Mapping[str, Tensor], kept: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in found.items():
            if name in kept:
                kept[name].copy_(value)
            else:
                kept[name] = value.clone()
