"""The hub: where workers dial in. One port, on which each of them has one connection for all that it says and hears.

    Enlist   a worker's control stream: orders and commands to it, events and heartbeats from it
    Attend   its part in a phase, while there is one       (``transports.tls.hub``)
    Carry    a channel of that phase                        (the same)
    Operate  a request of a person, where the hub keeps runs    (``desk``)
    Enroll   a node that is invited gets its certificate         (``enrolment``)

The hub runs in a thread of the engine's process. A worker stays connected between phases and runs. If it connects
again, as after a change of its address, the new connection counts and the old one is lost. A second worker of the
same node takes the place of the first, which is told so and ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc

from palmette.errors import InputError, one_line
from palmette.runtime.engines.hub.codec import LONGEST_JSON, BadMessage, MessageParts
from palmette.runtime.engines.hub.enrolment import answer_enrolment
from palmette.runtime.engines.hub.messages import HUB, TO_ENGINE, Introduction, RenewalRequest, RenewedCertificate
from palmette.runtime.engines.hub.renewal import renew_hub, renewed_certificate
from palmette.runtime.engines.hub.requests import WorkerEntry
from palmette.runtime.engines.hub.run_requests import RunRequests, RunStore
from palmette.runtime.engines.hub.versions import refuse_other_version
from palmette.runtime.engines.hub.worker_connection import WorkerConnection
from palmette.runtime.program import Channel
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.tls.frames import (
    BadFrame,
    Frame,
    FrameKind,
    decoded,
    farewell,
    welcome,
)
from palmette.runtime.transports.tls.hub import Hub, PeerAuthentication, StreamOpening, listen, refuse

_PATIENCE_S = 10.0
_CHECK_EVERY_S = 2.0
# Between runs nobody waits for a worker: a busy machine has more time for a heartbeat than while it trains.
IDLE_SILENCE_S = 15.0
RENEW_OWN_EVERY_S = 3600.0
_FAREWELL_S = 1.0
_LOOK_EVERY_S = 0.05
_REMEMBERED_RUNS = 100
_GRPC_CALL = "_schedule_rpc_coro"

R = TypeVar("R")


class HubServer:
    """A hub that listens at ``address``, host:port, with the keys in a folder.

    One that ``keeps_runs`` lets people wait until it has found its runs (``keep_runs``).

    Raises:
        InputError: the folder lacks the hub's own key.
        RunError: the address cannot be used.
    """

    def __init__(self, address: str, keys: Path, *, keeps_runs: bool = False) -> None:
        self._keys, self._wanted, self._keeps_runs = Keys(keys), address, keeps_runs
        self._own = self._keys.credentials(HUB)
        self._auth = PeerAuthentication(self._own, self._keys)
        self._connections: dict[str, WorkerConnection] = {}
        self._relays: dict[bytes, Hub] = {}
        self._run_requests: RunRequests | None = None
        self._has_desk = asyncio.Event()
        self._leaving = self._ran = False
        self._kept: deque[str] = deque(maxlen=_REMEMBERED_RUNS)
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hub", daemon=True)
        self._thread.start()
        try:
            self._server, self.port = self._call(self._start())
        except BaseException:
            self._stop_loop()
            raise

    @property
    def address(self) -> str:
        """Where it listens, with the port that it really has."""
        return f"{self._wanted.rpartition(':')[0]}:{self.port}"

    def connection(self, node: str) -> WorkerConnection | None:
        """The connection of a node's worker, if it has one."""
        return self._connections.get(node)

    def present(self) -> set[str]:
        """The nodes whose workers are connected."""
        return set(self._connections)

    def wait_for(self, nodes: Iterable[str], timeout_s: float) -> set[str]:
        """Wait until the workers of some nodes are connected; returns the nodes that are missing."""
        wanted = set(nodes)
        with self._changed:
            self._changed.wait_for(lambda: wanted <= self.present(), timeout_s)
        return wanted - self.present()

    def workers(self) -> list[WorkerEntry]:
        """What is known of the workers that are connected, by name."""
        return [
            WorkerEntry(
                node=node,
                since=connection.since.isoformat(timespec="seconds"),
                palmette_version=connection.introduction.palmette_version,
                torch_version=connection.introduction.torch_version,
                protocol=connection.introduction.protocol,
                limits=connection.introduction.limits,
            )
            for node, connection in sorted(self._connections.copy().items())
        ]

    def keep_runs(self, keeper: RunStore) -> None:
        """Answer requests of people about the runs of a keeper from now on."""

        async def opened() -> None:
            self._run_requests = RunRequests(self._auth, keeper, self.workers)
            self._has_desk.set()

        self._call(opened())

    def remember_kept(self, kept: str) -> None:
        """Remember the folder for the state of a run of this process, which workers that lose their connection keep."""
        if kept not in self._kept:
            self._kept.append(kept)

    def end_run(self) -> None:
        """Tell all workers that a run is over, if there was one."""
        self._call(self._end_run())

    def open_relay(self, token: bytes, nodes: Sequence[str], channels: Sequence[Channel]) -> Callable[[], None]:
        """Open a relay for the channels of a phase; returns what closes it."""

        async def opened() -> None:
            self._ran = True
            self._relays[token] = Hub(token, nodes, channels, self._auth, self._heard)

        async def closed() -> None:
            self._relays.pop(token).close()

        self._call(opened())
        return lambda: self._call(closed())

    def end(self, connection: WorkerConnection) -> None:
        """End a worker's connection."""
        self._loop.call_soon_threadsafe(connection.end)

    def close(self) -> None:
        """Tell all workers that the hub leaves, and stop."""
        if self._loop.is_running():
            self._call(self._leave())
            self._stop_loop()

    def _call(self, made: Coroutine[Any, Any, R]) -> R:
        return asyncio.run_coroutine_threadsafe(made, self._loop).result()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> tuple[Any, int]:
        methods = {
            "Enlist": self._enlist,
            "Attend": self._attend,
            "Carry": self._carry,
            "Operate": self._operate,
            "Enroll": self._enroll,
        }
        served = await listen(self._own, self._wanted, methods, self._renewed)
        self._checking = asyncio.ensure_future(self._check_connections())
        return served

    async def _end_run(self) -> None:
        for connection in self._connections.values() if self._ran else ():
            connection.end_run()
        self._ran = False

    async def _leave(self) -> None:
        await self._end_run()
        self._leaving = True
        self._checking.cancel()
        for connection in self._connections.values():
            connection.end()
        await self._server.stop(_FAREWELL_S)
        await _end_tasks()

    async def _check_connections(self) -> None:
        """End connections of workers whose certificates no longer count, and of those that have been silent for long.

        Where a worker's network is gone, TCP alone would not notice while nobody writes.
        """
        renewed_s = time.monotonic()
        while True:
            looked_s = time.monotonic()
            await asyncio.sleep(_CHECK_EVERY_S)
            now_s = time.monotonic()
            late = now_s - looked_s > 2 * _CHECK_EVERY_S  # this process was suspended; heartbeats wait to be read
            for connection in list(self._connections.values()):
                silent = not late and now_s - connection.heard_s > IDLE_SILENCE_S
                if silent or self._auth.objection(connection.certificate, connection.node) is not None:
                    connection.end()

            if self._keeps_runs and now_s - renewed_s > RENEW_OWN_EVERY_S:
                renewed_s = now_s
                with suppress(InputError):
                    await asyncio.to_thread(renew_hub, self._keys)

    def _renewed(self) -> Credentials | None:
        """The hub's own credentials, if its certificate has been renewed since the last handshake."""
        try:
            found = self._keys.credentials(HUB)
        except InputError:
            return None
        if found.certificate == self._own.certificate:
            return None
        self._own = found
        return found

    def _heard(self, node: str) -> None:
        connection = self._connections.get(node)
        if connection is not None:
            connection.heard_s = time.monotonic()

    async def _enroll(self, stream: AsyncIterator[bytes], context: Any) -> None:
        await answer_enrolment(self._auth, self._keys, stream, context)

    async def _operate(self, stream: AsyncIterator[bytes], context: Any) -> None:
        if self._keeps_runs:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_desk.wait(), _PATIENCE_S)
        if self._run_requests is None:
            await refuse(context, "this hub keeps no runs", grpc.StatusCode.UNIMPLEMENTED)
        await self._run_requests.operate(stream, context)

    async def _attend(self, stream: AsyncIterator[bytes], context: Any) -> None:
        came = await self._auth.introduced(stream, context)
        await (await self._relay(came, context)).attend(came, stream, context)

    async def _carry(self, stream: AsyncIterator[bytes], context: Any) -> None:
        came = await self._auth.introduced(stream, context)
        await (await self._relay(came, context)).carry(came, stream, context)

    async def _relay(self, came: StreamOpening, context: Any) -> Hub:
        relay = self._relays.get(came.token)
        if relay is None:
            await refuse(context, f"node {came.node} belongs to another run")
        return relay

    async def _enlist(self, stream: AsyncIterator[bytes], context: Any) -> None:
        came = await self._auth.introduced(stream, context)
        if came.node == HUB:
            await refuse(context, f"{HUB} is the hub's own name; expected a certificate of a node")
        try:
            said = await asyncio.wait_for(_introduction(stream), _PATIENCE_S)
            refuse_other_version(said)
        except TimeoutError:
            await refuse(context, "the worker did not introduce itself in time", grpc.StatusCode.UNAVAILABLE)
        except (BadFrame, StopAsyncIteration) as error:
            await refuse(context, one_line(str(error)) or "the worker did not introduce itself")
        connection = WorkerConnection(came.node, came.certificate, said, context)
        await context.write(welcome())
        self._auth.note_join(connection.node)
        connection.forget_kept(list(self._kept))
        self._add(connection)
        tasks = [
            asyncio.ensure_future(each)
            for each in (self._hear(connection, stream), connection.write_all(), connection.ended.wait())
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            wrong = next((each.exception() for each in tasks if each.done()), None)
            if isinstance(wrong, BadFrame):
                await refuse(context, one_line(str(wrong)), grpc.StatusCode.INVALID_ARGUMENT)
            if connection.ended.is_set():
                await self._part(connection, context)
        finally:
            for task in tasks:
                task.cancel()
            self._remove(connection)

    async def _part(self, connection: WorkerConnection, context: Any) -> None:
        """Say why a connection ends: its certificate no longer counts, it was taken for lost, or the hub leaves."""
        wrong = self._auth.objection(connection.certificate, connection.node)
        if wrong is not None:
            await refuse(context, f"the certificate of node {connection.node} is not valid: {wrong}")
        if connection.replaced:  # who still hears it is another process: they would take each other's place for ever
            await refuse(context, f"another worker has connected as node {connection.node}; expected one")
        if not self._leaving:
            await refuse(context, f"the connection of node {connection.node} was lost", grpc.StatusCode.ABORTED)
        with suppress(TimeoutError):
            await asyncio.wait_for(connection.written(), _FAREWELL_S)
        await context.write(farewell())

    async def _hear(self, connection: WorkerConnection, stream: AsyncIterator[bytes]) -> None:
        parts = MessageParts()
        async for data in stream:
            frame: Frame = decoded(data)
            connection.heard_s = time.monotonic()
            if frame.kind is FrameKind.FAREWELL:
                return
            if frame.kind is FrameKind.ALIVE:
                connection.answer()
            elif (whole := parts.add(frame)) is not None:
                said = TO_ENGINE.read(whole)
                if isinstance(said.message, Introduction):
                    raise BadMessage("a second introduction")
                if isinstance(said.message, RenewalRequest):
                    await asyncio.to_thread(self._renew, connection)
                else:
                    await connection.take(said)

    def _renew(self, connection: WorkerConnection) -> None:
        """Send a worker another certificate, if its own is due and there can be one."""
        with suppress(InputError):
            found = renewed_certificate(self._keys, connection.node, connection.certificate)
            if found is not None:
                connection.send(RenewedCertificate(certificate=found), "")
                connection.certificate = found  # of the same key; the one before may expire while it is connected

    def _add(self, connection: WorkerConnection) -> None:
        before = self._connections.get(connection.node)
        with self._changed:
            self._connections[connection.node] = connection
            self._changed.notify_all()
        if before is not None:
            before.replaced = True
            before.end()

    def _remove(self, connection: WorkerConnection) -> None:
        connection.lose()
        if self._connections.get(connection.node) is connection:
            with self._changed:
                del self._connections[connection.node]


async def _end_tasks() -> None:
    """End what still runs here, such as a stream's handler: left suspended, it would wake up in a closed loop.

    gRPC's task around a handler ends with it, and prints a traceback if it is cancelled before it has begun; one that
    begins now starts another handler.
    """
    until_s = time.monotonic() + _PATIENCE_S  # they end at once, but on a busy machine
    while (others := asyncio.all_tasks() - {asyncio.current_task()}) and time.monotonic() < until_s:
        for task in others:
            if getattr(task.get_coro(), "__name__", "") != _GRPC_CALL:
                task.cancel()
        await asyncio.wait(others, timeout=_LOOK_EVERY_S)


async def _introduction(stream: AsyncIterator[bytes]) -> Introduction:
    """Read a worker's introduction."""
    parts, whole = MessageParts(LONGEST_JSON), None
    while whole is None:
        whole = parts.add(decoded(await anext(stream)))
    said = TO_ENGINE.read(whole).message
    if not isinstance(said, Introduction):
        raise BadMessage(f"a worker begins with {type(said).__name__}; expected Introduction")
    return said
