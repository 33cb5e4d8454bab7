"""Calls that are cut where replicas share the statistics of a batch norm, and what travels between their segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from palmette.cost.steps import Kind, NormPoint
from palmette.errors import RunError
from palmette.runtime.program import Operation
from palmette.runtime.worker.batch_norm import SUMS
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.coroutine import Stepwise
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import pack


class Segments:
    """The passes of a node's instances that are under way, segment by segment."""

    def __init__(self, computes: Mapping[int, Compute]) -> None:
        self._computes = computes
        self._going: dict[tuple[Kind, int], Stepwise] = {}

    def call(self, operation: Operation, values: Values, work: Callable[[], Any]) -> Any:
        """Carry out a segment of a call, up to the batch norm that it stops at.

        Returns the sums that this brings, None where the batch norm needs none; at the call's end what it comes to.
        """
        key = operation.what, operation.instance
        answer = None
        if key in self._going:
            (asked,) = operation.after
            answer = values[asked]
        elif operation.point is None:
            return work()
        else:
            self._going[key] = Stepwise(work)
            self._computes[operation.instance].asks[operation.instance] = partial(_ask, self._going[key])
        going = self._going[key]
        if operation.point is None:
            del self._going[key]
            return going.until(None, answer)
        sums = going.until(operation.point[:2], answer)
        return None if sums is None else _of(operation.point, sums)

    def close(self) -> None:
        """Give up the passes that are under way."""
        while self._going:
            self._going.popitem()[1].close()

    def combined(self, operation: Operation, values: Values) -> Tensor:
        """The totals of the parts that an operation comes after; zeros where no part has needed any."""
        assert operation.point is not None
        total = torch.zeros(1 + 2 * operation.point.channels, dtype=SUMS)
        for need in operation.after:
            if values[need] is not None:
                total += values[need].cpu()
        return total

    def message(self, operation: Operation, values: Values) -> Tensor:
        """The bytes of what a node's own instances bring, or of the totals."""
        return pack([self.combined(operation, values)])

    def message_bytes(self, operation: Operation) -> int:
        """How many these are."""
        assert operation.point is not None
        return int(operation.point.size_bytes)


def _ask(going: Stepwise, layer: int, number: int, sums: Tensor) -> Tensor:
    return going.ask((layer, number), sums).to(sums.device)


def _of(point: NormPoint, sums: Tensor) -> Tensor:
    if sums.numel() != 1 + 2 * point.channels:
        found = f"has {sums.numel() // 2} channels, {point.channels} in the profile"
        raise RunError(f"batch norm {point.number + 1} of layer {point.layer} {found}; expected one of this network")
    return sums
