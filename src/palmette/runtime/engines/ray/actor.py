"""What runs on a host: a worker or a service, in a process that Ray starts and watches."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from palmette.runtime.engines.ray.heartbeats import HeartbeatSender
from palmette.runtime.transports.service import Service
from palmette.runtime.worker.commands import Command, Event, WorkerAlive
from palmette.runtime.worker.failure import failure
from palmette.runtime.worker.setup import Setup
from palmette.runtime.worker.tuning import tune_worker, use_threads
from palmette.runtime.worker.worker import Worker

# How long a call of ``hear`` waits for an event.
_ANSWER_S = 15.0


class _ActorControl:
    """The queues between a worker and its actor."""

    def __init__(self) -> None:
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.commands: SimpleQueue[Command] = SimpleQueue()

    def send(self, event: Event) -> None:
        self.events.put(event)

    def receive(self) -> Command:
        return self.commands.get()


class WorkerActor:
    """A worker on a host; the engine calls its methods remotely."""

    def __init__(self) -> None:
        self._line = _ActorControl()

    def start(self, setup: bytes, sender: HeartbeatSender) -> None:
        """Start the worker and its heartbeats, each in a separate thread."""
        sender.start_sending()
        threading.Thread(target=self._work, args=(setup,), daemon=True).start()

    def _work(self, setup: bytes) -> None:
        try:
            tune_worker()
            given: Setup = pickle.loads(setup)  # noqa: S301  (from the driver, which runs code here anyway)
            use_threads(given.threads)
            Worker(given, self._line).run()
        except BaseException as error:  # noqa: BLE001  (sent to the engine, which ends the run)
            self._line.send(failure(error))

    def tell(self, command: Command) -> None:
        """Pass a command to the worker."""
        self._line.commands.put(command)

    def hear(self) -> tuple[float, list[Event]]:
        """This host's clock, and the new events; a heartbeat when there are none for a while."""
        try:
            found = [self._line.events.get(timeout=_ANSWER_S)]
        except Empty:
            found = [WorkerAlive()]
        while not self._line.events.empty():
            found.append(self._line.events.get())
        return time.monotonic(), found

    def pid(self) -> int:
        """The process id on the host."""
        return os.getpid()


class ServiceActor:
    """A service on a host."""

    def serve(self, service: Service, timeout_s: float) -> tuple[bool, Any]:
        """Start the service; returns whether that succeeded, and what it reports."""
        answer: SimpleQueue[tuple[bool, Any]] = SimpleQueue()

        def be() -> None:
            try:
                service.serve(lambda said: answer.put((True, said)))
            except BaseException as error:  # noqa: BLE001  (sent to the engine)
                answer.put((False, failure(error).reason))

        threading.Thread(target=be, daemon=True).start()
        try:
            return answer.get(timeout=timeout_s)
        except Empty:
            return False, f"it is not ready after {timeout_s:g} s"


class CallActor:
    """Calls a function on a host."""

    def call(self, function: Callable[..., Any], *given: Any) -> Any:
        """The function's result."""
        return function(*given)
