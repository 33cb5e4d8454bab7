"""When the operations of a program were executed, as reported by a worker."""

from __future__ import annotations

from typing import NamedTuple

CALLS = ("forward", "backward", "update")
MOST_LATE_S = 0.02
"""A thread that was scheduled late catches up by this at most; a longer delay shows in the times of the run."""
Span = tuple[float, float, float]
"""When an operation started, ended, and was due to end."""


class OperationRecord(NamedTuple):
    """When an operation started and ended, by ``time.monotonic``, and how much later than it was due.

    ``op`` is that of the trace; of a half of backward it says which one: ``backward input``, ``backward weights``.
    """

    number: int
    op: str
    instance: int
    channel: int | None
    start_s: float
    end_s: float
    bytes: int
    late_s: float = 0.0

    @property
    def is_call(self) -> bool:
        """Whether it computes."""
        return self.op.partition(" ")[0] in CALLS
