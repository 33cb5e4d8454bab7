"""A function that stops in its midst to ask for something, and goes on when it is given.

It runs in a thread of its own while whoever owns it waits, so that there is never more than one of the two at work:

    owner    until(A) ──┐        ┌── stops at A ── until(B, answer) ──┐        ┌── …
    thread              └─ work ─┘                                    └─ work ─┘
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from torch import Tensor

from palmette.errors import RunError


@dataclass(frozen=True)
class Pause:
    """Where the function has stopped, and what it brought."""

    point: Hashable
    brought: Tensor


@dataclass(frozen=True)
class Ended:
    """What the function came to."""

    value: Any
    error: BaseException | None = None


class Abandoned(Exception):
    """Nobody will answer any more."""


class Stepwise:
    """Runs a function from one stop to the next."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._told: SimpleQueue[Pause | Ended] = SimpleQueue()
        self._answers: SimpleQueue[Tensor | None] = SimpleQueue()
        self._at: Pause | Ended | None = None
        self._stop: Hashable = None

    def ask(self, point: Hashable, brought: Tensor) -> Tensor:
        """Called from within the function: stop here until there is an answer."""
        self._told.put(Pause(point, brought))
        answer = self._answers.get()
        if answer is None:
            raise Abandoned
        return answer

    def close(self) -> None:
        """Let the function end where it is, should it wait for an answer."""
        if isinstance(self._at, Pause):
            self._answers.put(None)

    def until(self, point: Hashable | None, answer: Tensor | None = None) -> Any:
        """Go on to a stop, or to the end if there is none, with the answer to what was asked at the last stop.

        Returns what the function brought, None if it passes the stop without asking; at the end what it came to.

        Raises:
            RunError: it asks at a stop that nobody has foreseen.
        """
        if self._at is None:
            threading.Thread(target=self._run, daemon=True).start()
            self._at = self._told.get()
        elif isinstance(self._at, Pause) and self._at.point == self._stop and answer is not None:
            self._answers.put(answer)
            self._at = self._told.get()
        self._stop = point
        if isinstance(self._at, Ended) and self._at.error is not None:
            raise self._at.error
        if point is not None:
            return self._at.brought if isinstance(self._at, Pause) and self._at.point == point else None
        if isinstance(self._at, Pause):
            self.close()
            raise RunError(f"batch norm {self._at.point} is not in the profile; expected a profile of this network")
        return self._at.value

    def _run(self) -> None:
        try:
            self._told.put(Ended(self._work()))
        except BaseException as error:  # noqa: BLE001  (raised where it is waited for)
            self._told.put(Ended(None, error))
