"""Workers as threads of this process, connected in memory: the same worker without processes and sockets."""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from palmette.errors import RunError
from palmette.runtime.worker.commands import Command, Event, Stop, WorkerFailed
from palmette.runtime.worker.failure import failure
from palmette.runtime.worker.setup import Setup
from palmette.runtime.worker.worker import Worker

_LAST_WORDS_S = 2.0

E = TypeVar("E")


class _QueueControl:
    def __init__(self, node: str, events: queue.SimpleQueue[tuple[str, Event]]) -> None:
        self._node, self._events = node, events
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()

    def send(self, event: Event) -> None:
        self._events.put((self._node, event))

    def receive(self) -> Command:
        return self.commands.get()


class ThreadCrew:
    """One thread of this process per node."""

    def __init__(self, setups: Mapping[str, Setup]) -> None:
        self._events: queue.SimpleQueue[tuple[str, Event]] = queue.SimpleQueue()
        self._lines = {node: _QueueControl(node, self._events) for node in setups}
        self._threads = [
            threading.Thread(target=self._work, args=(setup, self._lines[node]), daemon=True)
            for node, setup in setups.items()
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _work(setup: Setup, line: _QueueControl) -> None:
        try:
            own = replace(setup, layers={number: copy.deepcopy(each) for number, each in setup.layers.items()})
            Worker(own, line).run()
        except BaseException as error:  # noqa: BLE001  (sent to the engine)
            line.send(failure(error))

    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""
        self._lines[node].commands.put(command)

    def receive(self, timeout_s: float | None = None) -> tuple[str, Event] | None:
        """The next event of any worker; None after the timeout."""
        try:
            node, event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(event, WorkerFailed):
            raise RunError(f"node {node}: {event.reason}")
        return node, event

    def ask(self, commands: Mapping[str, Command], kind: type[E], timeout_s: float) -> dict[str, E]:
        """Send commands; returns the answers of the workers that still respond."""
        for node, command in commands.items():
            self.send(node, command)
        found: dict[str, E] = {}
        until = time.monotonic() + timeout_s
        while len(found) < len(commands) and (left := until - time.monotonic()) > 0:
            try:
                node, event = self._events.get(timeout=left)
            except queue.Empty:
                break
            if isinstance(event, kind):
                found[node] = event
        return found

    def close(self) -> None:
        """Ask all workers to stop, and wait until they have."""
        for node in self._lines:
            self.send(node, Stop())
        for thread in self._threads:
            thread.join(_LAST_WORDS_S)
