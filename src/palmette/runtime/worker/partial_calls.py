"""Calls that pause where replicas share the statistics of a batch norm, and the messages between partial calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from palmette.cost.steps import Kind, NormPoint
from palmette.errors import RunError
from palmette.runtime.program import ProgramOperation
from palmette.runtime.worker.batch_norm import SUMS
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.coroutine import Coroutine
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import pack


class PartialCalls:
    """The forward and backward calls in progress on a node, one partial call at a time."""

    def __init__(self, computes: Mapping[int, Compute]) -> None:
        self._computes = computes
        self._going: dict[tuple[Kind, int], Coroutine] = {}

    def call(self, operation: ProgramOperation, values: Values, work: Callable[[], Any]) -> Any:
        """Execute a partial call, up to the batch norm that it stops at.

        Returns the sums for that batch norm, None if it needs none; the last partial call returns the result of the
        call.
        """
        key = operation.what, operation.instance
        answer = None
        if key in self._going:
            (asked,) = operation.after
            answer = values[asked]
        elif operation.point is None:
            return work()
        else:
            self._going[key] = Coroutine(work)
            self._computes[operation.instance].asks[operation.instance] = partial(_ask, self._going[key])
        going = self._going[key]
        if operation.point is None:
            del self._going[key]
            return going.until(None, answer)
        sums = going.until(operation.point[:2], answer)
        return None if sums is None else _of(operation.point, sums)

    def close(self) -> None:
        """Abort the calls in progress."""
        while self._going:
            self._going.popitem()[1].close()

    def combined(self, operation: ProgramOperation, values: Values) -> Tensor:
        """The totals of the sums that an operation comes after; zeros where no replica needs any."""
        assert operation.point is not None
        total = torch.zeros(1 + 2 * operation.point.channels, dtype=SUMS)
        for need in operation.after:
            if values[need] is not None:
                total += values[need].cpu()
        return total

    def message(self, operation: ProgramOperation, values: Values) -> Tensor:
        """The bytes of the sums of a node's own instances, or of the totals."""
        return pack([self.combined(operation, values)])

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size of such a message in bytes."""
        assert operation.point is not None
        return int(operation.point.size_bytes)


def _ask(going: Coroutine, layer: int, number: int, sums: Tensor) -> Tensor:
    return going.ask((layer, number), sums).to(sums.device)


def _of(point: NormPoint, sums: Tensor) -> Tensor:
    if sums.numel() != 1 + 2 * point.channels:
        found = f"has {sums.numel() // 2} channels, but {point.channels} in the profile"
        expected = "expected a profile of this network"
        raise RunError(f"batch norm {point.number + 1} of layer {point.layer} {found}; {expected}")
    return sums
