"""The record of a run in ``run.json``: the plan it executed, and the results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from palmette.spec.document import Amount, LocatedFault, OpenDocument, Positive
from palmette.spec.plan import Plan

REAL = "none"
"""The testbed of a run on machines as they are."""


class RunRecord(OpenDocument):
    """A run; times are those of the emulated clock. ``ended`` is ``done``, ``running``, or why it stopped."""

    format: Literal["palmette.run/1"] = "palmette.run/1"
    plan: Plan
    ended: str = "running"
    iterations: Annotated[int, Field(strict=True, ge=0)] = 0
    epoch_iterations: Annotated[int, Field(strict=True, ge=1)] | None = None
    iteration_s: Amount | None = None
    estimate_s: Amount | None = None
    energy_j: Amount | None = None
    energy_source: str | None = None
    accuracy: Amount | None = None
    dilation: Positive = 1.0
    testbed: str = REAL

    @property
    def emulated(self) -> bool:
        """Whether the nodes were emulated, so that times can be compared with the estimate."""
        return self.testbed != REAL

    @classmethod
    def _unknown(cls, data: Mapping[Any, Any]) -> tuple[list[LocatedFault], set[str]]:
        """Nobody writes it by hand, so a field that it does not know is not a misspelling."""
        return [], set()
