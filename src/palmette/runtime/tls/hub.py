"""The hub: joins the two streams of every channel, and lets nobody else in.

A worker opens a stream to attend and one for each of its channels. The hub believes a name only if the certificate says
the same, was issued by the authority and has not been revoked, and gives a node only its own ends of channels, each
once. When a worker is gone without a word, all others are told.

    sender ═ data ═▶ hub ═ data ═▶ receiver
           ◀ grant ══   ◀ grant ══
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import grpc
import grpc.aio

from palmette.runtime.keys.folder import Credentials, Keys
from palmette.runtime.program import Channel
from palmette.runtime.tls.frames import MOST_BYTES, NO_CHANNEL, BadFrame, Kind, decoded, introduced, welcome
from palmette.runtime.tls.local import LONGEST_PATH, Aborted, LocalContext, frames

SERVICE = "palmette.Hub"
_HANDSHAKE_PATIENCE_MS = 10_000
SERVER_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", _HANDSHAKE_PATIENCE_MS),
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.max_pings_without_data", 0),
]

_Stream = AsyncIterator[bytes]
_Context = Any  # grpc ships no types


@dataclass(frozen=True)
class HubAddress:
    """Where the hub is, and its very certificate: no other is believed, not even one of the same authority.

    ``local`` is a socket for the worker on the hub's own machine.
    """

    node: str
    address: str
    certificate: bytes = field(repr=False)
    local: Path | None = None


@dataclass(frozen=True)
class HubSetup:
    """All that a hub is told when it starts; ``address`` is where it listens, ``keys`` where it finds its node's.

    ``local``, if there is one, is where it listens for the worker on its own machine.
    """

    node: str
    keys: Path
    token: bytes = field(repr=False)
    nodes: Sequence[str]
    channels: Sequence[Channel]
    address: str
    local: Path | None = None

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"the hub on node {self.node}"

    def serve(self, ready: Callable[[HubAddress], None]) -> None:
        """Be the hub for ever; ``ready`` is told where."""
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: Callable[[HubAddress], None]) -> None:
        own = Keys(self.keys).credentials(self.node)
        hub = Hub(own, self.token, self.nodes, self.channels)
        host = f"[{self.address}]" if ":" in self.address else self.address
        server, port = await hub.serve(host)
        local = self.local if self.local is not None and len(str(self.local)) <= LONGEST_PATH else None
        if local is not None:
            await hub.serve_locally(local)
        ready(HubAddress(self.node, f"{host}:{port}", own.certificate, local))
        await server.wait_for_termination()


class _Ends:
    """The two ends of a channel, as they come."""

    def __init__(self) -> None:
        self.contexts: dict[str, _Context] = {}
        self.both = asyncio.Event()


class Hub:
    """Attendance and channels of one run, whose workers know its ``token``."""

    def __init__(self, own: Credentials, token: bytes, nodes: Sequence[str], channels: Sequence[Channel]) -> None:
        self._own, self._token, self._nodes = own, token, list(nodes)
        self._channels = {channel.number: channel for channel in channels}
        self._ends = {number: _Ends() for number in self._channels}
        self._present: dict[str, _Context] = {}
        self._complete = asyncio.Event()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def serve(self, address: str) -> tuple[Any, int]:
        """Listen; returns the server and its port."""
        server = grpc.aio.server(options=SERVER_OPTIONS)
        handlers = {
            "Attend": grpc.stream_stream_rpc_method_handler(self._attend),
            "Carry": grpc.stream_stream_rpc_method_handler(self._carry),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        key = [(self._own.key, self._own.certificate)]
        doors = grpc.ssl_server_credentials(key, self._own.authority, require_client_auth=True)
        port = server.add_secure_port(f"{address}:0", doors)
        await server.start()
        return server, port

    async def serve_locally(self, path: Path) -> None:
        """Listen on a socket of this machine as well."""
        self._here = await asyncio.start_unix_server(self._locally, path)

    async def _locally(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = LocalContext(writer, self._own.certificate)
        try:
            method = await reader.readexactly(1)
            await (self._attend if method == b"A" else self._carry)(frames(reader), context)
        except (Aborted, ConnectionError, asyncio.IncompleteReadError):
            pass  # told, or nobody is left to be told
        finally:
            writer.close()

    async def _attend(self, stream: _Stream, context: _Context) -> None:
        node, _ = await self._introduced(stream, context, NO_CHANNEL)
        if node in self._present:
            await _refuse(context, f"node {node} is here already")
        self._present[node] = context
        leaving = asyncio.ensure_future(_farewell(stream))
        try:
            if len(self._present) == len(self._nodes):
                self._complete.set()
            await _first(asyncio.ensure_future(self._complete.wait()), leaving, self._lost)
            if self._complete.is_set():
                await context.write(welcome())
            await _first(leaving, self._lost)
            if not leaving.done():
                await context.abort(grpc.StatusCode.ABORTED, self._lost.result())
        finally:
            in_good_order = leaving.done() and not leaving.cancelled() and leaving.exception() is None
            if not (in_good_order and leaving.result()) and not self._lost.done():
                self._lost.set_result(node)
            leaving.cancel()

    async def _carry(self, stream: _Stream, context: _Context) -> None:
        node, number = await self._introduced(stream, context, None)
        channel = self._channels.get(number)
        if channel is None or node not in (channel.sender, channel.receiver):
            await _refuse(context, f"node {node} has no end of channel {number}")
        ends = self._ends[number]
        if node in ends.contexts:
            await _refuse(context, f"node {node} has its end of channel {number} already")
        ends.contexts[node] = context
        if len(ends.contexts) == 2:
            ends.both.set()
        await ends.both.wait()
        (other,) = (each for name, each in ends.contexts.items() if name != node)
        allowed = Kind.DATA if node == channel.sender else Kind.GRANT
        async for data in stream:
            await _refuse_misplaced(data, context, number, allowed)
            try:
                await other.write(data)
            except Exception:  # noqa: BLE001  (of many kinds: the other end is gone, which its attendance tells)
                return

    async def _introduced(self, stream: _Stream, context: _Context, channel: int | None) -> tuple[str, int]:
        """Who opens a stream, and for which channel; anybody who is not of this run is refused."""
        try:
            frame = decoded(await anext(aiter(stream)))
            token, node = introduced(frame)
        except (BadFrame, StopAsyncIteration) as error:
            await _refuse(context, str(error) or "a stream without a word")
        if channel is not None and frame.channel != channel:
            await _refuse(context, f"a worker attends without a channel, not with {frame.channel}")
        shown = context.auth_context().get("x509_pem_cert", [b""])[0]
        wrong = self._own.objection(shown, node)
        if wrong is not None:
            await _refuse(context, f"the certificate shown for node {node} does not count: {wrong}")
        if not secrets.compare_digest(token, self._token):
            await _refuse(context, f"node {node} belongs to another run")
        if node not in self._nodes:
            await _refuse(context, f"node {node} has no part in this run")
        return node, frame.channel


async def _refuse_misplaced(data: bytes, context: _Context, channel: int, allowed: Kind) -> None:
    try:
        frame = decoded(data)
        if frame.kind is not allowed or frame.channel != channel:
            kind = frame.kind.name.lower()
            raise BadFrame(f"a frame of kind {kind} for channel {frame.channel} on the stream of channel {channel}")
    except BadFrame as error:
        await _refuse(context, str(error), grpc.StatusCode.INVALID_ARGUMENT)


async def _refuse(context: _Context, why: str, code: Any = grpc.StatusCode.PERMISSION_DENIED) -> NoReturn:
    await context.abort(code, why)
    raise AssertionError("abort() raises")


async def _farewell(stream: _Stream) -> bool:
    """Wait for the end of a stream; returns whether it came in good order."""
    try:
        async for data in stream:
            return decoded(data).kind is Kind.FAREWELL
    except BadFrame:
        pass
    return False


async def _first(*waiting: asyncio.Future[Any]) -> None:
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
