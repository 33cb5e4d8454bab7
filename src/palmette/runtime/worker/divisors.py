"""The divisor of a batch's loss, where it varies and several roots find it together (``cost.divisor``)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palmette.cost.steps import Kind
from palmette.runtime.program import Program, ProgramOperation
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import pack

_DIVISOR = torch.float64


class DivisorExchange:
    """A node's part: what the samples of its own roots count, and the total of all."""

    message_bytes = _DIVISOR.itemsize

    def __init__(self, program: Program, computes: Mapping[int, Compute]) -> None:
        self._computes = computes
        operations = program.operations
        self._roots = {each.number: each.instance for each in operations if each.what is Kind.FORWARD}
        ends = ((Kind.DIVISOR, "average"), (Kind.TOTAL_DIVISOR, "receive"))
        self._found = [each.number for each in operations if (each.what, each.op) in ends]

    def total(self, operation: ProgramOperation, values: Values) -> float:
        """The sum of what an operation comes after: forward calls of roots, and what other nodes have sent."""
        return sum(self._count(need, values) for need in operation.after)

    def _count(self, number: int, values: Values) -> float:
        root = self._roots.get(number)
        found: float = values[number] if root is None else self._computes[root].divisor(root)
        return found

    def known(self, values: Values) -> float | None:
        """The divisor of the whole batch; None where a root knows it by itself."""
        return values[self._found[0]] if self._found else None

    def message(self, operation: ProgramOperation, values: Values) -> Tensor:
        """What a node's roots count, or the total of all, as bytes."""
        return pack([torch.tensor(self.total(operation, values), dtype=_DIVISOR)])

    def arrived(self, message: Tensor) -> float:
        """Such a number."""
        return message.view(_DIVISOR).item()
