"""How the learning rate changes over a run, by the name of its schedule.

Some schedules are stretched over the run, however long it is: after a third of it the rate, and with it the loss, is
another than at the end of a run that is a third as long. Only the end of such a run says what one of its length learns.
Others, those of the user's own among them, go by the iteration alone, so that a run begins as every shorter one.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from palmette.spec.document import Name, OpenDocument

_OVER_THE_RUN = frozenset({"linear", "cosine"})
CONSTANT = "constant"


class LearningRateSchedule(OpenDocument):
    """The name of a schedule, or of the user's own, and the iterations in which the rate first rises to its value."""

    name: Name = CONSTANT
    warmup: Annotated[int, Field(strict=True, ge=0, le=10**12)] = 0

    @property
    def is_over_the_run(self) -> bool:
        """Whether it depends on how long the run is."""
        return self.name in _OVER_THE_RUN

    @property
    def is_usual(self) -> bool:
        """Whether it is what a run has where nobody says anything."""
        return self == LearningRateSchedule()

    @property
    def shown(self) -> str:
        """What people read."""
        return self.name + (f" with a warm-up of {self.warmup} iterations" if self.warmup else "")

    @property
    def options(self) -> str:
        """The options of a run that has it."""
        return f"--schedule {self.name}" + (f" --warmup {self.warmup}" if self.warmup else "")
