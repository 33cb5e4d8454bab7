"""The local engine: one process per node on this machine.

A worker that dies is detected by the end of its process, a frozen one by missing heartbeats: every worker sends one
twice a second from a separate thread, however busy it is.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any, NoReturn

from palmette.errors import NodeLost, RunError
from palmette.runtime.engines.crew import (
    ABSENCE_S,
    ALIVE_EVERY_S,
    LAST_WORDS_S,
    OTHERS_WORDS_S,
    SILENCE_S,
    E,
    pickled_setup,
    unresponsive,
)
from palmette.runtime.engines.forkserver import forkserver_context
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.commands import Command, EngineGone, Event, Stop, WorkerAlive, WorkerFailed
from palmette.runtime.worker.failure import blamed, failure
from palmette.runtime.worker.setup import Setup
from palmette.runtime.worker.tuning import tune_worker, use_threads
from palmette.runtime.worker.worker import Worker

# How long a worker whose engine is gone has to write its state.
_ORPHANED_S = 30.0


class _PipeControl:
    """A worker's end of the pipe to the engine."""

    def __init__(self, connection: Connection[Any, Any]) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self.gone = threading.Event()

    def send(self, event: Event) -> None:
        try:
            with self._lock:
                self._connection.send_bytes(pickle.dumps(event))
        except OSError:
            self.gone.set()  # whoever waits for a command hears it

    def receive(self) -> Any:
        try:
            return pickle.loads(self._connection.recv_bytes())  # noqa: S301  (a pipe of our own)
        except (EOFError, OSError):
            self.gone.set()
            raise EngineGone from None


def _work(initializer: ProcessInitializer | None, connection: Connection[Any, Any]) -> None:
    """Main function of a worker process. The setup comes through the pipe, so that nothing else keeps it in memory."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the engine gets them too, and shuts down in order
    line = _PipeControl(connection)
    try:
        if initializer is not None:
            initializer()
        tune_worker()
        _keep_alive(line)
        setup = line.receive()
        if isinstance(setup, Setup):
            use_threads(setup.threads)
            Worker(setup, line).run()
    except BaseException as error:  # noqa: BLE001  (sent to the engine, which ends the run)
        line.send(failure(error))
        os._exit(1)
    os._exit(0)  # threads may still wait for messages that will never come


def _keep_alive(line: _PipeControl) -> None:
    """Send heartbeats to the engine from a separate thread; end the process some time after the engine is gone."""

    def tell() -> None:
        while not line.gone.is_set():
            line.send(WorkerAlive())
            time.sleep(ALIVE_EVERY_S)
        time.sleep(_ORPHANED_S)
        os._exit(1)

    threading.Thread(target=tell, daemon=True).start()


def _dumps() -> Callable[[object], bytes]:
    """What pickles for a process of this machine: it cannot import what a person defined in a notebook."""
    if hasattr(sys.modules["__main__"], "__file__"):
        return pickle.dumps
    import cloudpickle

    by_value: Callable[[object], bytes] = cloudpickle.dumps
    return by_value


class ProcessCrew:
    """One process on this machine per node."""

    def __init__(self, setups: Mapping[str, Setup], initializers: Mapping[str, ProcessInitializer | None]) -> None:
        context = forkserver_context()
        self._processes: dict[str, Any] = {}
        self._lines: dict[str, Connection[Any, Any]] = {}
        self._liveness = Liveness(SILENCE_S, ABSENCE_S)
        for node in setups:
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_work, args=(initializers[node], theirs), name=f"palmette {node}", daemon=True
            )
            process.start()
            theirs.close()
            self._processes[node], self._lines[node] = process, ours
        self._named = {id(line): node for node, line in self._lines.items()}
        try:
            for node, setup in setups.items():
                self._tell(node, pickled_setup(node, setup, _dumps()))
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each node's worker."""
        return {node: process.pid for node, process in self._processes.items()}

    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""
        self._tell(node, pickle.dumps(command))

    def _tell(self, node: str, message: bytes) -> None:
        try:
            self._lines[node].send_bytes(message)
        except OSError:
            self._refuse_dead(node)

    def receive(self, timeout_s: float | None = None) -> tuple[str, Event] | None:
        """The next event of any worker except heartbeats; None after the timeout."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while until is None or time.monotonic() < until:
            self._refuse_silent()
            left = 0.5 if until is None else min(0.5, max(0.0, until - time.monotonic()))
            for line in wait(list(self._lines.values()), left):
                heard = self._hear(self._named[id(line)])
                if heard is not None:
                    return heard
        return None

    def ask(self, commands: Mapping[str, Command], kind: type[E], timeout_s: float) -> dict[str, E]:
        """Send commands; returns the answers of the workers that still respond."""
        lines = {}
        for node, command in commands.items():
            try:
                self._lines[node].send_bytes(pickle.dumps(command))
                lines[node] = self._lines[node]
            except OSError:
                continue  # it is gone
        found: dict[str, E] = {}
        until = time.monotonic() + timeout_s
        while lines and (left := until - time.monotonic()) > 0:
            for line in wait(list(lines.values()), left):
                node = self._named[id(line)]
                try:
                    event = pickle.loads(lines[node].recv_bytes())  # noqa: S301  (a pipe of our own)
                except (EOFError, OSError):
                    del lines[node]
                    continue
                if isinstance(event, kind):
                    found[node] = event
                    del lines[node]
        return found

    def _hear(self, node: str) -> tuple[str, Event] | None:
        event = self._next(node)
        self._liveness.heard([node], time.monotonic())
        if isinstance(event, WorkerFailed):
            self._refuse_failed(node, event)
        return None if isinstance(event, WorkerAlive) else (node, event)

    def _next(self, node: str) -> Event:
        try:
            event: Event = pickle.loads(self._lines[node].recv_bytes())  # noqa: S301  (a pipe of our own)
        except (EOFError, OSError):
            self._refuse_dead(node)
        return event

    def _refuse_failed(self, node: str, failed: WorkerFailed) -> NoReturn:
        """Raise for the node at fault; if this one only lost a peer, first wait for what the others report."""
        told = [(node, failed)]
        until = time.monotonic() + (LAST_WORDS_S if failed.lost else OTHERS_WORDS_S)
        others = {name: line for name, line in self._lines.items() if name != node}
        while all(each.peer for _, each in told) and others and (left := until - time.monotonic()) > 0:
            for line in wait(list(others.values()), left):
                name = self._named[id(line)]
                event = self._next(name)
                self._liveness.heard([name], time.monotonic())
                if isinstance(event, WorkerFailed):
                    del others[name]
                    told.append((name, event))
        raise blamed(told, self._is_silent)

    def _is_silent(self, node: str) -> bool | None:
        if node not in self._lines:
            return None
        return self._liveness.silent_s(node, time.monotonic()) > ABSENCE_S

    def _refuse_dead(self, node: str) -> NoReturn:
        process = self._processes[node]
        process.join(LAST_WORDS_S)
        self._refuse_last_words(node)
        code = process.exitcode
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = " (out of memory, or killed by hand)" if -code == signal.SIGKILL else ""
            raise NodeLost(f"node {node}: its worker was killed by {name}{hint}", node)
        raise RunError(f"node {node}: its worker ended with exit code {code}")

    def _refuse_last_words(self, node: str) -> None:
        """Raise the failure that a worker reported before it ended, if any."""
        try:
            while self._lines[node].poll():
                event = pickle.loads(self._lines[node].recv_bytes())  # noqa: S301  (a pipe of our own)
                if isinstance(event, WorkerFailed):
                    raise blamed([(node, event)], self._is_silent)
        except (EOFError, OSError):
            return

    def _refuse_silent(self) -> None:
        """Raise for a worker that has been silent too long, unless this process was suspended itself, as by Ctrl-Z."""
        now = time.monotonic()
        node = self._liveness.first_silent(now)  # a worker that has sent nothing yet is still starting
        if node is not None:
            self._processes[node].kill()
            raise unresponsive(node, self._liveness.silent_s(node, now))

    def close(self) -> None:
        """Ask all workers to stop, and kill those that do not."""
        for line in self._lines.values():
            try:
                line.send_bytes(pickle.dumps(Stop()))
            except OSError:
                continue  # it has ended already
        until = time.monotonic() + LAST_WORDS_S
        for process in self._processes.values():
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for line in self._lines.values():
            line.close()
