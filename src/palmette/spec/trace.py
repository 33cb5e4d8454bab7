"""The trace: every operation of an iteration, predicted or real, in one shape."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from palmette.spec.document import Amount, Name, OpenDocument

Op = Literal["receive", "forward", "send", "backward", "average", "update"]


class Operation(OpenDocument):
    """One operation of a node, with its start and end since the beginning of the iteration or the run."""

    iteration: Annotated[int, Field(strict=True, ge=0)] = 0
    node: Name
    instance: Name
    op: Op
    start_s: Amount
    end_s: Amount
    bytes: Amount = 0.0
