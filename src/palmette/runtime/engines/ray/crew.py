"""Workers on hosts of a Ray cluster.

Every actor always has a pending call that returns its next events. Ray reports a process or host that is gone; missing
heartbeats reveal a worker that is frozen or disconnected.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from palmette.errors import NodeLost
from palmette.runtime.engines.clocks import HostClock
from palmette.runtime.engines.crew import (
    ABSENCE_S,
    LAST_WORDS_S,
    OTHERS_WORDS_S,
    SILENCE_S,
    pickled_setup,
    unresponsive,
)
from palmette.runtime.engines.ray.heartbeats import HeartbeatReceiver
from palmette.runtime.engines.ray.hosts import Hosts
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.commands import Command, Event, Stop, WorkerAlive, WorkerFailed
from palmette.runtime.worker.failure import blamed
from palmette.runtime.worker.setup import Setup

_LOOK_EVERY_S = 0.5

E = TypeVar("E")


class RayCrew:
    """One actor per node, on the host that stands for it."""

    def __init__(
        self, hosts: Hosts, setups: Mapping[str, Setup], initializers: Mapping[str, ProcessInitializer | None]
    ) -> None:
        self._hosts, self._ray = hosts, hosts.ray
        self._events: deque[tuple[str, Event]] = deque()
        self._actors: dict[str, Any] = {}
        self._asked: dict[Any, str] = {}
        self._liveness = Liveness(SILENCE_S, ABSENCE_S)
        self._clocks = {node: HostClock() for node in setups}
        self._asked_s = time.monotonic()
        self._heartbeats = HeartbeatReceiver(hosts.here, list(setups))
        try:
            for node, setup in setups.items():
                self._actors[node] = hosts.worker(node)
                self._call(node, "start", pickled_setup(node, setup), self._heartbeats.sender(node))
                self._listen(node)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each node's worker, on its host."""
        return {node: self._ray.get(self._call(node, "pid")) for node in self._actors}

    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""
        self._call(node, "tell", command)

    def receive(self, timeout_s: float | None = None) -> tuple[str, Event] | None:
        """The next event of any worker except heartbeats; None after the timeout."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._events and (until is None or time.monotonic() < until):
            self._refuse_silent()
            self._refuse_absent()
            left_s = _LOOK_EVERY_S if until is None else until - time.monotonic()
            gone = self._look(min(_LOOK_EVERY_S, max(0.0, left_s)))
            if gone is not None:
                raise _gone(gone)
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
        left, until = set(commands), time.monotonic() + timeout_s
        while left and self._asked and (seconds := until - time.monotonic()) > 0:
            left.discard(self._look(seconds) or "")
            while self._events:
                node, event = self._events.popleft()
                if node in left and isinstance(event, kind):
                    found[node] = event
                    left.discard(node)
        return found

    def close(self) -> None:
        """Ask all workers to stop, and kill their processes."""
        now = self._look_out()
        told = [
            self._call(node, "tell", Stop()) for node in self._actors if self._liveness.silent_s(node, now) < ABSENCE_S
        ]
        if told:
            self._ray.wait(told, num_returns=len(told), timeout=LAST_WORDS_S)
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors.clear()
        self._heartbeats.close()

    def _call(self, node: str, method: str, *given: Any, group: str = "tell") -> Any:
        return getattr(self._actors[node], method).options(concurrency_group=group).remote(*given)

    def _listen(self, node: str) -> None:
        self._asked[self._call(node, "hear", group="hear")] = node

    def _look(self, timeout_s: float) -> str | None:
        """Collect events that have arrived; returns a node whose worker is gone, if any."""
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=timeout_s)
        for answer in ready:
            node = self._asked.pop(answer)
            try:
                there_s, said = self._ray.get(answer)
            except self._ray.exceptions.RayError:
                return node
            self._listen(node)
            clock = self._clocks[node]
            clock.note(there_s, time.monotonic())
            self._events.extend((node, clock.translated(event)) for event in said if not isinstance(event, WorkerAlive))
        return None

    def _refuse_silent(self) -> None:
        """Raise for a worker that has been silent too long, unless this process was suspended itself."""
        now = self._look_out()
        node = self._liveness.first_silent(now)  # a worker that has sent no heartbeat yet is still starting
        if node is not None:
            raise unresponsive(node, self._liveness.silent_s(node, now))

    def _look_out(self) -> float:
        """Note the heartbeats that have arrived; returns the time."""
        now = time.monotonic()
        self._liveness.heard(self._heartbeats.seen(), now)
        return now

    def _refuse_absent(self) -> None:
        """Raise for a worker that cannot start because its host is gone."""
        starting = [node for node in self._actors if not self._liveness.is_known(node)]
        if not starting or time.monotonic() - self._asked_s < _LOOK_EVERY_S:
            return
        living = self._hosts.living()
        self._asked_s = time.monotonic()
        for node in starting:
            if node not in living:
                raise _gone(node)

    def _refuse_failed(self, node: str, failed: WorkerFailed) -> NoReturn:
        """Raise for the node at fault; if this one only lost a peer, first wait for what the others report."""
        told = {node: failed}
        until = time.monotonic() + (LAST_WORDS_S if failed.lost else OTHERS_WORDS_S)
        while all(each.peer for each in told.values()) and (left := until - time.monotonic()) > 0:
            gone = self._look(min(_LOOK_EVERY_S, left))
            if gone is not None:
                raise _gone(gone)
            for name, event in self._events:  # each of a worker's threads may report a failure
                if isinstance(event, WorkerFailed):
                    told.setdefault(name, event)
            self._events.clear()
        raise blamed(list(told.items()), self._is_silent)

    def _is_silent(self, node: str) -> bool | None:
        if node not in self._actors:
            return None
        return self._liveness.silent_s(node, self._look_out()) > ABSENCE_S


def _gone(node: str) -> NodeLost:
    return NodeLost(f"node {node}: its worker died, or its host is gone", node)
