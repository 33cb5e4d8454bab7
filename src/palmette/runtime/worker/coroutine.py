"""A function that pauses to ask for a value, and continues when it gets the answer.

It runs in its own thread while its owner waits, so that only one of the two runs at any time:

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
class Yielded:
    """Where the function has paused, and the tensor that it passed."""

    point: Hashable
    brought: Tensor


@dataclass(frozen=True)
class Returned:
    """The result of the function, or its error."""

    value: Any
    error: BaseException | None = None


class Cancelled(Exception):
    """The function was aborted: no answer will come."""


class Coroutine:
    """Runs a function from one pause to the next."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._told: SimpleQueue[Yielded | Returned] = SimpleQueue()
        self._answers: SimpleQueue[Tensor | None] = SimpleQueue()
        self._at: Yielded | Returned | None = None
        self._stop: Hashable = None

    def ask(self, point: Hashable, brought: Tensor) -> Tensor:
        """Called from inside the function: pause here until there is an answer."""
        self._told.put(Yielded(point, brought))
        answer = self._answers.get()
        if answer is None:
            raise Cancelled
        return answer

    def close(self) -> None:
        """Abort the function if it waits for an answer."""
        if isinstance(self._at, Yielded):
            self._answers.put(None)

    def until(self, point: Hashable | None, answer: Tensor | None = None) -> Any:
        """Continue to a point, or to the end if that is None, with the answer to the last question.

        Returns the tensor that the function passed, None if it does not pause at the point; at the end its result.

        Raises:
            RunError: it pauses at an unexpected point.
        """
        if self._at is None:
            threading.Thread(target=self._run, daemon=True).start()
            self._at = self._told.get()
        elif isinstance(self._at, Yielded) and self._at.point == self._stop and answer is not None:
            self._answers.put(answer)
            self._at = self._told.get()
        self._stop = point
        if isinstance(self._at, Returned) and self._at.error is not None:
            raise self._at.error
        if point is not None:
            return self._at.brought if isinstance(self._at, Yielded) and self._at.point == point else None
        if isinstance(self._at, Yielded):
            self.close()
            raise RunError(f"batch norm {self._at.point} is not in the profile; expected a profile of this network")
        return self._at.value

    def _run(self) -> None:
        try:
            self._told.put(Returned(self._work()))
        except BaseException as error:  # noqa: BLE001  (raised in the owner's thread)
            self._told.put(Returned(None, error))
