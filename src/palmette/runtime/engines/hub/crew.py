"""Workers at a hub, as the engine sees them: those that have dialled in from wherever they are."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue

from safetensors import SafetensorError, deserialize
from torch import nn

from palmette.errors import NodeLost, RunError
from palmette.runtime.engines.hub.orders import order_of
from palmette.runtime.engines.hub.server import HubServer
from palmette.runtime.engines.hub.worker_connection import Said, WorkerConnection, worker_left
from palmette.runtime.engines.probes import ProbeResult
from palmette.runtime.engines.remote_crew import RemoteCrew
from palmette.runtime.held_out import is_plausible
from palmette.runtime.program import Program
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.commands import (
    Calibrated,
    Command,
    Evaluate,
    EvaluationReply,
    Event,
    Execute,
    GetState,
    IterationDone,
    StateReply,
    Stop,
)
from palmette.runtime.worker.setup import Setup

EVALUATES_SINCE = 2
"""The first version of the protocol whose workers evaluate on their own data."""


class HubCrew(RemoteCrew):
    """The workers of some nodes that are connected to a hub.

    Raises:
        NodeLost: a worker has left since the run was prepared.
        RunError: something in a setup has no name that a worker could find it by.
    """

    def __init__(
        self, hub: HubServer, setups: Mapping[str, Setup], initializers: Mapping[str, ProcessInitializer | None]
    ) -> None:
        super().__init__(setups)
        self._run, self._said = secrets.token_hex(8), SimpleQueue[Said]()
        self._programs = {node: list(setup.programs) for node, setup in setups.items()}
        self._shapes = {node: {n: _shapes(each) for n, each in setup.layers.items()} for node, setup in setups.items()}
        self._asked: dict[str, Shapes] = {}
        self._asked_iterations: dict[tuple[str, int], range] = {}
        self._evaluating: set[str] = set()
        self._connections: dict[str, WorkerConnection] = {}
        self._seen_s: dict[str, float] = {}
        orders = {node: order_of(setup) for node, setup in setups.items()}
        for node in setups:
            connection = hub.connection(node)
            if connection is None:
                raise worker_left(node)
            self._connections[node] = connection
        for order in orders.values():
            if order.kept is not None:
                hub.remember_kept(order.kept)
        for node, order in orders.items():
            self._connections[node].listen(self._run, self._said)
            self._connections[node].send(order, self._run)
        gone = next((node for node, connection in self._connections.items() if connection.lost), None)
        if gone is not None:  # before it was listened to
            self.close()
            raise worker_left(gone)

    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""
        if isinstance(command, Execute):
            self._asked_iterations[node, command.program] = range(command.first, command.last + 1)
        if isinstance(command, Evaluate):
            if self._connections[node].introduction.protocol < EVALUATES_SINCE:
                raise RunError(f"node {node}: its worker has an older version, which does not evaluate; update it")
            self._evaluating.add(node)
        if isinstance(command, GetState):
            own = self._shapes[node]
            self._asked[node] = {name: shape for n in command.layers for name, shape in own.get(n, {}).items()}
        self._connections[node].send(command, self._run)

    def close(self) -> None:
        """Tell all workers to stop; they stay connected."""
        for node, connection in self._connections.items():
            self.send(node, Stop())
            connection.listen(self._run, None)

    def _look(self, timeout_s: float) -> str | None:
        try:
            connection, said = self._said.get(timeout=timeout_s)
        except Empty:
            return None
        if said is None:
            return connection.node if self._connections[connection.node] is connection else None
        self._refuse_strange(connection.node, said.message)
        self._hear(connection.node, [said.message], said.sent_s)
        return None

    def _heard(self) -> list[str]:
        heard = {node: connection.heard_s for node, connection in self._connections.items()}
        fresh = [node for node, at_s in heard.items() if self._seen_s.get(node) != at_s]
        self._seen_s = heard
        return fresh

    def _is_gone(self, node: str) -> bool:
        return self._connections[node].lost

    def _loss(self, node: str) -> NodeLost:
        return worker_left(node)

    def _refuse_strange(self, node: str, event: Event | ProbeResult) -> None:
        """Raise for an event that the worker's programs cannot lead to.

        Raises:
            RunError: names the worker.
        """
        if isinstance(event, ProbeResult):
            raise RunError(f"node {node}: its worker reports a measurement, which it was not asked for")
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
        if isinstance(event, EvaluationReply):
            if node not in self._evaluating or not is_plausible(event.sums):
                raise RunError(f"node {node}: its worker reports an evaluation that it was not asked for")
            self._evaluating.discard(node)
        if isinstance(event, StateReply) and not _is_state(event, self._asked.pop(node, None)):
            raise RunError(f"node {node}: its worker sent other weights than those that it has")


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
