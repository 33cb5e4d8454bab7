"""Parts of the network that are exchanged in turns under ``every``: copies on the worker, turns on the engine's side.

    step ▐ step ▐ take ▐ step ▐ step ▐ put ▐ step …
                     └─── exchange ───┘

All trees have taken the same steps where a part is taken or put; in between they go on. Replicas agree in all layers
only at the end of an epoch, so that a run that is stopped within one goes back to its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from palmette.cost.steps import Kind
from palmette.cost.sync.turns import Turn
from palmette.runtime.program import ProgramOperation, numbers_of
from palmette.runtime.sync.weight_exchange import WeightExchange
from palmette.runtime.worker.deliveries import NO_DELIVERIES
from palmette.runtime.worker.executor import Values


class FragmentCopies:
    """Takes copies of the layers of this node's instances, or ``puts`` averages in their place."""

    deliveries = NO_DELIVERIES

    def __init__(self, exchange: WeightExchange, *, puts: bool) -> None:
        self._done = exchange.put if puts else exchange.take

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> None:
        """Copy the layers of an instance."""
        assert operation.what is Kind.COMBINE, f"only copies are made here, not {operation.op}"
        self._done(operation.instance, numbers_of(operation.layers))

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """Never called: nothing is sent."""
        raise AssertionError(f"copies are not sent: {operation}")

    def message_bytes(self, operation: ProgramOperation) -> None:
        """Nothing is sent."""

    def arrived(self, operation: ProgramOperation, message: Tensor, iteration: int) -> None:
        """Never called: nothing is sent."""
        raise AssertionError(f"copies are not sent: {operation}")

    def close(self) -> None:
        """Nothing to abort."""


class Barrier(NamedTuple):
    """How far trees go together, in steps of an epoch; the fragment to put in place then, and the one to take.

    With ``at_once``, that one is put in place before trees go on.
    """

    at: int
    put: int | None = None
    take: int | None = None
    at_once: bool = False


def barriers(turns: list[Turn], begin: int, end: int) -> Iterator[Barrier]:
    """Where trees wait for each other from one step of an epoch to another, all that was taken is put by its end."""
    own = [turn for turn in turns if begin < turn.taken < end]
    takes = {turn.taken: turn.fragment for turn in own}
    puts = {min(turn.put, end): turn.fragment for turn in own if turn.put > turn.taken}
    at_once = {turn.taken for turn in own if turn.put == turn.taken}
    for at in sorted({*puts, *takes, end}):
        yield Barrier(at, puts.get(at), takes.get(at), at in at_once)
