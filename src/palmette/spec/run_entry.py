"""A run as ``palmette ls`` lists it, on this machine or at a hub."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

RunState = Literal["waiting", "running", "done", "stopped", "failed"]
RunId = Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
_Line = Annotated[str, Field(max_length=2000)]


class RunEntry(BaseModel):
    """A run, what it trains, and how far it is; ``why`` it waits or has failed, who started it (``by``) and when."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: RunId
    state: RunState
    why: _Line = ""
    model: _Line = ""
    strategy: _Line = ""
    nodes: tuple[_Line, ...] = ()
    iterations: int = 0
    loss: float | None = None
    by: _Line = ""
    since: _Line = ""
    folder: _Line = ""
