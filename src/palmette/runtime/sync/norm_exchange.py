"""The norm of gradients that nodes find together: parts of its square go to a root's node, and the norm comes back."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from palmette.cost.steps import Kind
from palmette.runtime.program import Program, ProgramOperation
from palmette.runtime.worker.executor import Values
from palmette.runtime.worker.messages import pack

NORM_MESSAGES = (Kind.SQUARES, Kind.TOTAL_NORM)
_NUMBER = torch.float64
NORM_BYTES = _NUMBER.itemsize


class NormExchange:
    """What a program's operations have found of the norm."""

    def __init__(self, program: Program) -> None:
        self._results = {each.number: each.what for each in program.operations if each.op in ("average", "receive")}

    def norm(self, squares: float, operation: ProgramOperation, values: Values) -> float:
        """The norm, of this node's part of its square and those that others have sent."""
        sent: list[float] = [values[need] for need in operation.after if self._results.get(need) is Kind.SQUARES]
        return math.sqrt(squares + sum(sent))

    def found(self, operation: ProgramOperation, values: Values) -> float | None:
        """The norm that an update or its message comes after; None where gradients are not clipped."""
        known = [values[need] for need in operation.after if self._results.get(need) in (Kind.NORM, Kind.TOTAL_NORM)]
        return known[0] if known else None

    def message(self, squares: float, operation: ProgramOperation, values: Values) -> Tensor:
        """This node's part of the norm's square, or the norm."""
        number = squares if operation.what is Kind.SQUARES else self.found(operation, values)
        return pack([torch.tensor(number, dtype=_NUMBER)])


def arrived_number(message: Tensor) -> float:
    """A norm, or a part of its square."""
    return message.view(_NUMBER).item()
