"""The trace: every operation of an iteration, predicted or real, in one shape."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from palmette.spec.document import Amount, Name, OpenDocument

Op = Literal["receive", "forward", "send", "backward", "average", "update"]
Half = Literal["input", "weights"]


class Operation(OpenDocument):
    """One operation of a node, with its start and end since the beginning of the iteration or the run.

    ``half`` says which half of a backward pass it is, where that falls into halves.
    """

    iteration: Annotated[int, Field(strict=True, ge=0)] = 0
    node: Name
    instance: Name
    op: Op
    start_s: Amount
    end_s: Amount
    bytes: Amount = 0.0
    half: Half | None = None

    @model_serializer(mode="wrap")
    def _without_no_half(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files name halves where there are any."""
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if key != "half" or value is not None}
