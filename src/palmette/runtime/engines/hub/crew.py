"""Workers at a hub, as the engine sees them: those that have dialled in from wherever they are."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import NoReturn

from safetensors import SafetensorError, deserialize
from torch import nn

from palmette.errors import NodeLost, RunError
from palmette.runtime.engines.clocks import HostClock
from palmette.runtime.engines.crew import (
    ABSENCE_S,
    LAST_WORDS_S,
    OTHERS_WORDS_S,
    SILENCE_S,
    E,
    unresponsive,
)
from palmette.runtime.engines.hub.orders import order_of
from palmette.runtime.engines.hub.server import HubServer, Said, WorkerLine
from palmette.runtime.program import Program
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.commands import (
    Calibrated,
    Command,
    Event,
    Execute,
    GetState,
    IterationDone,
    StateReply,
    Stop,
    WorkerAlive,
    WorkerFailed,
)
from palmette.runtime.worker.failure import blamed
from palmette.runtime.worker.setup import Setup

_LOOK_EVERY_S = 0.5


class HubCrew:
    """The workers of some nodes that are connected to a hub.

    Raises:
        NodeLost: a worker has left since the run was prepared.
        RunError: something in a setup has no name that a worker could find it by.
    """

    def __init__(
        self, hub: HubServer, setups: Mapping[str, Setup], initializers: Mapping[str, ProcessInitializer | None]
    ) -> None:
        self._run, self._said = secrets.token_hex(8), SimpleQueue[Said]()
        self._events: deque[tuple[str, Event]] = deque()
        self._programs = {node: list(setup.programs) for node, setup in setups.items()}
        self._shapes = {node: {n: _shapes(each) for n, each in setup.layers.items()} for node, setup in setups.items()}
        self._asked: dict[str, Shapes] = {}
        self._asked_iterations: dict[tuple[str, int], range] = {}
        self._lines: dict[str, WorkerLine] = {}
        self._clocks = {node: HostClock() for node in setups}
        self._liveness, self._seen_s = Liveness(SILENCE_S, ABSENCE_S), dict[str, float]()
        orders = {node: order_of(setup) for node, setup in setups.items()}
        for node in setups:
            line = hub.line(node)
            if line is None:
                raise _gone(node)
            self._lines[node] = line
        for node, order in orders.items():
            self._lines[node].listen(self._run, self._said)
            self._lines[node].send(order, self._run)
        gone = next((node for node, line in self._lines.items() if line.lost), None)
        if gone is not None:  # before it was listened to
            self.close()
            raise _gone(gone)

    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""
        if isinstance(command, Execute):
            self._asked_iterations[node, command.program] = range(command.first, command.last + 1)
        if isinstance(command, GetState):
            own = self._shapes[node]
            self._asked[node] = {name: shape for n in command.layers for name, shape in own.get(n, {}).items()}
        self._lines[node].send(command, self._run)

    def receive(self, timeout_s: float | None = None) -> tuple[str, Event] | None:
        """The next event of any worker except heartbeats; None after the timeout."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._events and (until is None or time.monotonic() < until):
            self._refuse_silent()
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
        left = {node for node in commands if not self._lines[node].lost}
        until = time.monotonic() + timeout_s
        while left and (seconds := until - time.monotonic()) > 0:
            left.discard(self._look(seconds) or "")
            for node, event in self._taken():
                if node in left and isinstance(event, kind):
                    found[node] = event
                    left.discard(node)
        return found

    def close(self) -> None:
        """Tell all workers to stop; they stay connected."""
        for node, line in self._lines.items():
            self.send(node, Stop())
            line.listen("", None)

    def _look(self, timeout_s: float) -> str | None:
        """Wait for what workers say; returns a node whose worker is gone, if any."""
        try:
            line, said = self._said.get(timeout=timeout_s)
        except Empty:
            return None
        if said is None:
            return line.node if self._lines[line.node] is line else None
        event = said.message
        if not isinstance(event, WorkerAlive):
            self._refuse_strange(line.node, event)
            clock = self._clocks[line.node]
            clock.note(said.sent_s, time.monotonic())
            self._events.append((line.node, clock.translated(event)))
        return None

    def _taken(self) -> Iterable[tuple[str, Event]]:
        while self._events:
            yield self._events.popleft()

    def _refuse_strange(self, node: str, event: Event) -> None:
        """Raise for an event that the worker's programs cannot lead to.

        Raises:
            RunError: names the worker.
        """
        if isinstance(event, IterationDone | Calibrated):
            program = _program(self._programs[node], event.program)
            known = {operation.number for operation in program.operations} if program is not None else set[int]()
            told = [each.number for each in event.records] if isinstance(event, IterationDone) else event.found.seconds
            if not known.issuperset(told) or not (told or isinstance(event, Calibrated)):
                raise RunError(f"node {node}: its worker reports other operations than those that it has")
        if isinstance(event, IterationDone) and event.iteration not in self._asked_iterations.get(
            (node, event.program), range(0)
        ):
            raise RunError(f"node {node}: its worker reports iteration {event.iteration}, which it was not asked for")
        if isinstance(event, StateReply) and not _is_state(event, self._asked.pop(node, None)):
            raise RunError(f"node {node}: its worker sent other weights than those that it has")

    def _refuse_silent(self) -> None:
        """Raise for a worker that has been silent too long, unless this process was suspended itself."""
        now = self._look_out()
        node = self._liveness.first_silent(now)
        if node is not None:
            raise unresponsive(node, self._liveness.silent_s(node, now))

    def _look_out(self) -> float:
        """Note which workers have been heard since the last time; returns the time."""
        now = time.monotonic()
        heard = {node: line.heard_s for node, line in self._lines.items()}
        self._liveness.heard((node for node, at_s in heard.items() if self._seen_s.get(node) != at_s), now)
        self._seen_s = heard
        return now

    def _refuse_failed(self, node: str, failed: WorkerFailed) -> NoReturn:
        """Raise for the node at fault; if this one only lost a peer, first wait for what the others report."""
        told = {node: failed}
        until = time.monotonic() + (LAST_WORDS_S if failed.lost else OTHERS_WORDS_S)
        while all(each.peer for each in told.values()) and (left := until - time.monotonic()) > 0:
            gone = self._look(min(_LOOK_EVERY_S, left))
            if gone is not None:
                raise _gone(gone)
            for name, event in self._taken():
                if isinstance(event, WorkerFailed):
                    told.setdefault(name, event)
        raise blamed(list(told.items()), self._is_silent)

    def _is_silent(self, node: str) -> bool | None:
        if node not in self._lines:
            return None
        return self._lines[node].lost or self._liveness.silent_s(node, self._look_out()) > ABSENCE_S


Shapes = Mapping[str, Sequence[int]]
"""The shapes of weights by name."""


def _shapes(layer: nn.Module) -> Shapes:
    return {name: list(each.shape) for name, each in layer.state_dict().items()}


def _is_state(reply: StateReply, expected: Shapes | None) -> bool:
    """Whether a reply has the weights that are expected, None if it was not asked for any."""
    try:
        weights = dict(deserialize(reply.weights))  # type: ignore[no-untyped-call]
        deserialize(reply.optimizer)  # type: ignore[no-untyped-call]
    except SafetensorError:
        return False
    return expected is not None and all(
        name in weights and list(weights[name]["shape"]) == list(shape) for name, shape in expected.items()
    )


def _program(programs: list[Program | None], number: int) -> Program | None:
    return programs[number] if 0 <= number < len(programs) else None


def _gone(node: str) -> NodeLost:
    return NodeLost(f"node {node}: its worker has left, or its connection was lost", node)
