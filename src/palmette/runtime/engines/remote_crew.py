"""Workers on other machines, as the engine sees them: events that arrive, silence, and who is at fault."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NoReturn

from palmette.errors import NodeLost
from palmette.runtime.engines.clocks import HostClock
from palmette.runtime.engines.crew import (
    ABSENCE_S,
    LAST_WORDS_S,
    OTHERS_WORDS_S,
    SILENCE_S,
    E,
    unresponsive,
)
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.worker.commands import Command, Event, WorkerAlive, WorkerFailed
from palmette.runtime.worker.failure import blamed

LOOK_EVERY_S = 0.5


class RemoteCrew(ABC):
    """One worker for each of some nodes, each with a clock of its own."""

    def __init__(self, nodes: Iterable[str]) -> None:
        self._events: deque[tuple[str, Event]] = deque()
        self._clocks = {node: HostClock() for node in nodes}
        self._liveness = Liveness(SILENCE_S, ABSENCE_S)

    @abstractmethod
    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""

    @abstractmethod
    def _look(self, timeout_s: float) -> str | None:
        """Wait for what workers say, and ``_hear`` it; returns a node whose worker is gone, if any."""

    @abstractmethod
    def _heard(self) -> Iterable[str]:
        """The nodes whose workers have given a sign of life since the last time."""

    @abstractmethod
    def _is_gone(self, node: str) -> bool:
        """Whether a worker will not answer any more."""

    @abstractmethod
    def _loss(self, node: str) -> NodeLost:
        """The error for a worker that is gone."""

    def receive(self, timeout_s: float | None = None) -> tuple[str, Event] | None:
        """The next event of any worker except heartbeats; None after the timeout."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._events and (until is None or time.monotonic() < until):
            self._refuse_silent()
            left_s = LOOK_EVERY_S if until is None else until - time.monotonic()
            gone = self._look(min(LOOK_EVERY_S, max(0.0, left_s)))
            if gone is not None:
                raise self._loss(gone)
        if not self._events:
            return None
        node, event = self._events.popleft()
        if isinstance(event, WorkerFailed):
            self._refuse_failed(node, event)
        return node, event

    def ask(self, commands: Mapping[str, Command], kind: type[E], timeout_s: float) -> dict[str, E]:
        """Send commands; returns the answers of the workers that still respond."""
        for node, command in commands.items():
            self.send(node, command)
        found: dict[str, E] = {}
        left, until = {node for node in commands if not self._is_gone(node)}, time.monotonic() + timeout_s
        while left and (seconds := until - time.monotonic()) > 0:
            left.discard(self._look(seconds) or "")
            for node, event in self._taken():
                if node in left and isinstance(event, kind):
                    found[node] = event
                    left.discard(node)
        return found

    def _hear(self, node: str, events: Iterable[Event], there_s: float) -> None:
        """Note events of a worker, by its clock when they were sent."""
        clock = self._clocks[node]
        clock.note(there_s, time.monotonic())
        self._events.extend((node, clock.translated(event)) for event in events if not isinstance(event, WorkerAlive))

    def _taken(self) -> Iterable[tuple[str, Event]]:
        while self._events:
            yield self._events.popleft()

    def _look_out(self) -> float:
        """Note the signs of life that have arrived; returns the time."""
        now = time.monotonic()
        self._liveness.heard(self._heard(), now)
        return now

    def _refuse_silent(self) -> None:
        """Raise for a worker that has been silent too long, unless this process was suspended itself."""
        now = self._look_out()
        node = self._liveness.first_silent(now)  # one that has given no sign of life yet is still starting
        if node is not None:
            raise unresponsive(node, self._liveness.silent_s(node, now))

    def _refuse_failed(self, node: str, failed: WorkerFailed) -> NoReturn:
        """Raise for the node at fault; if this one only lost a peer, first wait for what the others report."""
        told = {node: failed}
        until = time.monotonic() + (LAST_WORDS_S if failed.lost else OTHERS_WORDS_S)
        while all(each.peer for each in told.values()) and (left := until - time.monotonic()) > 0:
            gone = self._look(min(LOOK_EVERY_S, left))
            if gone is not None:
                raise self._loss(gone)
            for name, event in self._taken():  # each of a worker's threads may report a failure
                if isinstance(event, WorkerFailed):
                    told.setdefault(name, event)
        raise blamed(list(told.items()), self._is_silent)

    def _is_silent(self, node: str) -> bool | None:
        if node not in self._clocks:
            return None
        return self._is_gone(node) or self._liveness.silent_s(node, self._look_out()) > ABSENCE_S
