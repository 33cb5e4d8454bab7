"""Measurements on the machines of workers at a hub."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TypeVar

from palmette.errors import RunError
from palmette.runtime.engines.crew import SILENCE_S, unresponsive
from palmette.runtime.engines.hub.messages import KeptRequest
from palmette.runtime.engines.hub.relays import RelayEndpoint
from palmette.runtime.engines.hub.server import HubServer
from palmette.runtime.engines.hub.worker_connection import Said, WorkerConnection, worker_left
from palmette.runtime.engines.probes import ProbeRequest, R, TimeTransfer
from palmette.runtime.transports.base import Endpoint
from palmette.runtime.worker.commands import WorkerFailed

_LOOK_EVERY_S = 0.5
ANSWERS_SINCE = 2
"""The first version of the protocol whose workers answer requests."""

A = TypeVar("A")


class HubProber:
    """Sends requests to the workers of nodes that are connected to a hub."""

    def __init__(self, hub: HubServer, nodes: Sequence[str]) -> None:
        self._hub, self.nodes = hub, nodes

    def ask(
        self,
        requests: Mapping[str, ProbeRequest],
        kind: type[R],
        endpoints: Mapping[str, Endpoint] = MappingProxyType({}),
    ) -> dict[str, R]:
        """Have a request carried out by each worker, all at the same time."""
        sent = {node: _with_token(request, endpoints.get(node)) for node, request in requests.items()}
        return ask_workers(self._hub, sent, kind)


def ask_workers(hub: HubServer, requests: Mapping[str, ProbeRequest | KeptRequest], kind: type[A]) -> dict[str, A]:
    """Send a request to each worker; returns the answers, which have to be of a kind.

    Raises:
        NodeLost: a worker is gone.
        RunError: a worker cannot do it; names it.
    """
    run, said = secrets.token_hex(8), SimpleQueue[Said]()
    connections = {node: _connection(hub, node) for node in requests}
    try:
        for node, connection in connections.items():
            connection.listen(run, said)
            connection.send(requests[node], run)
        return _answers(connections, said, kind)
    finally:
        for connection in connections.values():
            connection.listen(run, None)


def _connection(hub: HubServer, node: str) -> WorkerConnection:
    connection = hub.connection(node)
    if connection is None:
        raise worker_left(node)
    if connection.introduction.protocol < ANSWERS_SINCE:
        raise RunError(f"node {node}: its worker has an older version, which does not measure; update it")
    return connection


def _answers(connections: Mapping[str, WorkerConnection], said: SimpleQueue[Said], kind: type[A]) -> dict[str, A]:
    found: dict[str, A] = {}
    while len(found) < len(connections):
        try:
            connection, answer = said.get(timeout=_LOOK_EVERY_S)
        except Empty:
            _refuse_silent([connection for node, connection in connections.items() if node not in found])
            continue
        if answer is None:
            raise worker_left(connection.node)
        if isinstance(answer.message, WorkerFailed):
            raise RunError(f"node {connection.node}: {answer.message.reason}")
        if not isinstance(answer.message, kind):
            kinds = f"{type(answer.message).__name__}; expected {kind.__name__}"
            raise RunError(f"node {connection.node}: its worker sent {kinds}")
        found[connection.node] = answer.message
    return {node: found[node] for node in connections}


def _with_token(request: ProbeRequest, endpoint: Endpoint | None) -> ProbeRequest:
    if not isinstance(request, TimeTransfer):
        return request
    assert isinstance(endpoint, RelayEndpoint), "workers at a hub are connected by it"
    return replace(request, token=endpoint.token)


def _refuse_silent(connections: Sequence[WorkerConnection]) -> None:
    for connection in connections:
        silent_s = time.monotonic() - connection.heard_s
        if connection.lost:
            raise worker_left(connection.node)
        if silent_s > SILENCE_S:
            raise unresponsive(connection.node, silent_s)
