"""A copy of a node's state before the current iteration, in case this cannot be finished.

When a node is lost, some of the others have updated their weights and some have not. Each keeps a copy from the start
of the iteration, so that together they can roll back to a state that all had.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

State = tuple[Mapping[str, Tensor], Mapping[str, Tensor]]


class RollbackCopy:
    """A rollback copy of weights, buffers and optimizer state, renewed at the first call of every iteration."""

    def __init__(self, current: Callable[[], State]) -> None:
        self._current, self._lock = current, threading.Lock()
        self._iteration: int | None = None
        self._weights: dict[str, Tensor] = {}
        self._optimizer: dict[str, Tensor] = {}

    def begin(self, iteration: int) -> None:
        """Copy the current state before anything changes, once per iteration."""
        with self._lock:
            if iteration != self._iteration:
                weights, optimizer = self._current()
                _copy(weights, self._weights)
                _copy(optimizer, self._optimizer)
                self._iteration = iteration

    def after(self, iteration: int) -> State:
        """The state after an iteration that all workers have completed: now, or at the start of the next."""
        with self._lock:
            return (self._weights, self._optimizer) if self._iteration == iteration + 1 else self._current()

    def last_states(self, finished: int) -> dict[int, State]:
        """The states that are known, by the iteration that they are after: the copy's, and that of the last iteration.

        The worker is about to end: no iteration begins any more, so that none changes meanwhile.
        """
        self._lock.acquire()
        if self._iteration is None:
            return {}
        found: dict[int, State] = {self._iteration - 1: (self._weights, self._optimizer)}
        return found | ({finished: self._current()} if self._iteration == finished else {})


def _copy(found: Mapping[str, Tensor], kept: dict[str, Tensor]) -> None:
    for name in kept.keys() - found.keys():
        del kept[name]
    with torch.no_grad():
        for name, value in found.items():
            if name in kept:
                kept[name].copy_(value)
            else:
                kept[name] = value.clone()
