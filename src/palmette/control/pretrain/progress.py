"""How far a pre-training is: layers are measured, then devices train, each for a time that its profile foretells.

Both are counted from 0 to 1. What comes after, links and factors, counts as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class PretrainProgress(NamedTuple):
    """What is going on, the share of it that is done, and the seconds that all training takes by the estimate.

    There is no estimate while layers are measured.
    """

    what: str
    done: float
    expected_s: float | None


class PretrainMeter:
    """Turns the steps of a device into the progress of all."""

    def __init__(self, tell: Callable[[PretrainProgress], None]) -> None:
        self._tell, self._what = tell, ""
        self._expected_s: dict[str, float] = {}
        self._finished_s = self._now_s = 0.0

    def layer(self, name: str, done: float) -> None:
        """A layer is measured."""
        self._tell(PretrainProgress(f"measuring {name}", done, None))

    def expect(self, expected_s: Mapping[str, float]) -> None:
        """How many seconds each device trains, by the estimate."""
        self._expected_s = dict(expected_s)

    def begin(self, device: str) -> None:
        """A device begins to train; those before it are done."""
        self._finished_s += self._now_s
        self._now_s = self._expected_s[device]
        self._say(f"{device} trains alone", 0.0)

    def step(self, part: float) -> None:
        """So much of its steps is done."""
        self._say(self._what, part)

    def say(self, what: str) -> None:
        """Something else is going on; devices that have begun to train are done."""
        self._say(what, 1.0)

    def _say(self, what: str, part: float) -> None:
        self._what, all_s = what, sum(self._expected_s.values())
        done = (self._finished_s + part * self._now_s) / all_s if all_s else 0.0
        self._tell(PretrainProgress(what, done, all_s or None))
