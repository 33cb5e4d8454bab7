"""When the operations of a program were executed, as reported by a worker."""

from __future__ import annotations

from typing import NamedTuple

CALLS = ("forward", "backward", "update")


class OperationRecord(NamedTuple):
    """When an operation started and ended, by ``time.monotonic``, and how much later than it was due."""

    number: int
    op: str
    instance: int
    channel: int | None
    start_s: float
    end_s: float
    bytes: int
    late_s: float = 0.0
