"""What a meter is: told when an interval begins and ends, it returns the joules used in between."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class EnergyReading(NamedTuple):
    """Joules of an interval of time, and their source: ``measured: …`` or ``modelled: …``."""

    seconds: float
    joules: float
    source: str

    @property
    def watts(self) -> float:
        """Mean power."""
        return self.joules / self.seconds


class Meter(Protocol):
    """Meters one interval of time after another."""

    source: str

    def begin(self) -> None:
        """Begin an interval now."""
        ...

    def end(self) -> EnergyReading:
        """End the interval now.

        Raises:
            RunError: the meter has no reading of it.
        """
        ...
