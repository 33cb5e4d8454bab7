"""The hub: relays between the two streams of every channel, and refuses all others.

A worker opens a control stream (``Attend``) and one for each of its channels (``Carry``). The hub accepts a node's name
only if the certificate has the same, was issued by the authority and has not been revoked, and gives a node only its
own ends of channels, each once. Workers send heartbeats on a connection separate from the messages', and the hub
returns them. When a worker ends without a farewell, or has been silent for some seconds, the hub informs all others.

    sender ═ data ═▶ hub ═ data ═▶ receiver
           ◀ grant ══   ◀ grant ══         or credit
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import grpc
import grpc.aio

from palmette.runtime.program import Channel
from palmette.runtime.transports.heartbeat import ASLEEP_S, SILENCE_S
from palmette.runtime.transports.keys.folder import Credentials
from palmette.runtime.transports.keys.held import HeldKeys, KeySource, key_source
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.tls.frames import (
    MOST_BYTES,
    NO_CHANNEL,
    BadFrame,
    FrameKind,
    alive,
    decoded,
    read_hello,
    welcome,
)
from palmette.runtime.transports.tls.local import LONGEST_PATH, Aborted, LocalContext, frames

SERVICE = "palmette.Hub"
_HANDSHAKE_PATIENCE_MS = 10_000
# A connection loses nothing on the way, so heartbeats may be rarer than with datagrams.
ALIVE_EVERY_S = 1.5
_LOOK_EVERY_S = 0.25
_MOST_STREAMS = 4_096  # per connection; a node has one per channel
SERVER_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.max_send_message_length", MOST_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", _HANDSHAKE_PATIENCE_MS),
    ("grpc.max_concurrent_streams", _MOST_STREAMS),
]

_Stream = AsyncIterator[bytes]
_Context = Any  # grpc ships no types
_Loss = tuple[Any, str]  # the status code, and the node
_FROM_SENDER, _FROM_RECEIVER = (FrameKind.DATA,), (FrameKind.GRANT, FrameKind.CREDIT)


@dataclass(frozen=True)
class HubAddress:
    """Where the hub is, and its certificate: no other is accepted, not even one of the same authority.

    ``local`` is a socket for the worker on the hub's own machine.
    """

    node: str
    address: str
    certificate: bytes = field(repr=False)
    local: Path | None = None


@dataclass(frozen=True)
class HubSetup:
    """What a hub is given when it starts; ``address`` is where it listens, ``keys`` its node's, or their folder.

    ``local``, if there is one, is where it listens for the worker on its own machine.
    """

    node: str
    keys: Path | HeldKeys
    token: bytes = field(repr=False)
    nodes: Sequence[str]
    channels: Sequence[Channel]
    address: str
    local: Path | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"the hub on node {self.node}"

    def serve(self, ready: Callable[[HubAddress], None]) -> None:
        """Run the hub forever; ``ready`` is called with its address."""
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: Callable[[HubAddress], None]) -> None:
        keys = key_source(self.keys)
        own = keys.credentials(self.node)
        hub = Hub(own, keys, self.token, self.nodes, self.channels)
        host = f"[{self.address}]" if ":" in self.address else self.address
        server, port = await hub.serve(host)
        local = self.local if self.local is not None and len(str(self.local)) <= LONGEST_PATH else None
        if local is not None:
            await hub.serve_locally(local)
        ready(HubAddress(self.node, f"{host}:{port}", own.certificate, local))
        await server.wait_for_termination()


class _Ends:
    """The two ends of a channel, as they connect."""

    def __init__(self) -> None:
        self.contexts: dict[str, _Context] = {}
        self.both = asyncio.Event()


class Hub:
    """Workers and channels of one run, which is identified by ``token``; ``own`` credentials come from ``keys``."""

    def __init__(
        self, own: Credentials, keys: KeySource, token: bytes, nodes: Sequence[str], channels: Sequence[Channel]
    ) -> None:
        self._own, self._keys, self._token, self._nodes = own, keys, token, list(nodes)
        self._channels = {channel.number: channel for channel in channels}
        self._ends = {number: _Ends() for number in self._channels}
        self._present: dict[str, _Context] = {}
        self._complete = asyncio.Event()
        self._lost: asyncio.Future[_Loss] = asyncio.get_running_loop().create_future()
        self._liveness = Liveness(SILENCE_S, ASLEEP_S)
        self._watching = asyncio.ensure_future(self._watch())

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
        """Listen on a local socket as well."""
        self._here = await asyncio.start_unix_server(self._locally, path)

    async def _locally(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = LocalContext(writer, self._own.certificate)
        try:
            method = await reader.readexactly(1)
            await (self._attend if method == b"A" else self._carry)(frames(reader), context)
        except (Aborted, ConnectionError, asyncio.IncompleteReadError):
            pass  # the worker knows why, or is gone
        finally:
            writer.close()

    async def _attend(self, stream: _Stream, context: _Context) -> None:
        node, _ = await self._introduced(stream, context, NO_CHANNEL)
        if node in self._present:
            await _refuse(context, f"node {node} is connected already")
        self._present[node] = context
        self._keys.note("join", node=node)
        leaving = asyncio.ensure_future(self._farewell(node, stream, context))
        try:
            if len(self._present) == len(self._nodes):
                self._complete.set()
            await _first(asyncio.ensure_future(self._complete.wait()), leaving, self._lost)
            if self._complete.is_set():
                await context.write(welcome())
                self._liveness.heard([node], time.monotonic())
            await _first(leaving, self._lost)
            if not leaving.done():
                await context.abort(*self._lost.result())
        finally:
            in_good_order = leaving.done() and not leaving.cancelled() and leaving.exception() is None
            if not (in_good_order and leaving.result()):
                self._lose(node, grpc.StatusCode.ABORTED)
            self._liveness.forget(node)
            leaving.cancel()

    async def _farewell(self, node: str, stream: _Stream, context: _Context) -> bool:
        """Answer heartbeats until a worker leaves; returns whether it said farewell."""
        try:
            async for data in stream:
                kind = decoded(data).kind
                if kind is not FrameKind.ALIVE:
                    return kind is FrameKind.FAREWELL
                self._liveness.heard([node], time.monotonic())
                if self._was_revoked(node, context):
                    return False
                await context.write(alive())
        except BadFrame:
            pass
        return False

    def _was_revoked(self, node: str, context: _Context) -> bool:
        """Whether a node that was let in has been revoked since."""
        self._own = self._keys.renewed(self._own)
        revoked = self._own.has_revoked(_certificate(context))
        if revoked:
            self._keys.note("refusal", node=node, why="it was revoked while it was connected")
        return revoked

    async def _watch(self) -> None:
        """Check for silent workers until one is lost."""
        while not self._lost.done():
            await asyncio.sleep(_LOOK_EVERY_S)
            silent = self._liveness.first_silent(time.monotonic())
            if silent is not None:
                self._lose(silent, grpc.StatusCode.DEADLINE_EXCEEDED)

    def _lose(self, node: str, how: Any) -> None:
        """Inform all workers which node is lost, and how; the first one counts."""
        if not self._lost.done():
            self._lost.set_result((how, node))

    async def _carry(self, stream: _Stream, context: _Context) -> None:
        node, number = await self._introduced(stream, context, None)
        channel = self._channels.get(number)
        if channel is None or node not in (channel.sender, channel.receiver):
            await _refuse(context, f"node {node} does not use channel {number}")
        ends = self._ends[number]
        if node in ends.contexts:
            await _refuse(context, f"node {node} uses channel {number} already")
        ends.contexts[node] = context
        if len(ends.contexts) == 2:
            ends.both.set()
        await ends.both.wait()
        (other,) = (each for name, each in ends.contexts.items() if name != node)
        allowed = _FROM_SENDER if node == channel.sender else _FROM_RECEIVER
        async for data in stream:
            if self._lost.done():
                return  # nothing more of a node that is lost, or was revoked, reaches the others
            await _refuse_misplaced(data, context, number, allowed)
            try:
                await other.write(data)
            except Exception:  # noqa: BLE001  (of many kinds: the other end is gone, as its control stream shows)
                return

    async def _introduced(self, stream: _Stream, context: _Context, channel: int | None) -> tuple[str, int]:
        """Which node opens a stream, and for which channel; any that is not of this run is refused."""
        try:
            frame = decoded(await asyncio.wait_for(anext(aiter(stream)), _HANDSHAKE_PATIENCE_MS / 1000))
            token, node = read_hello(frame)
        except (BadFrame, StopAsyncIteration, TimeoutError) as error:
            await _refuse(context, str(error) or "no hello was received")
        if channel is not None and frame.channel != channel:
            await _refuse(context, f"a control stream with channel {frame.channel}; expected none")
        self._own = self._keys.renewed(self._own)  # a node may have been revoked meanwhile
        wrong = self._own.objection(_certificate(context), node)
        if wrong is not None:
            self._keys.note("refusal", node=node, why=wrong)
            await _refuse(context, f"the certificate shown for node {node} is not valid: {wrong}")
        if not secrets.compare_digest(token, self._token):
            await _refuse(context, f"node {node} belongs to another run")
        if node not in self._nodes:
            await _refuse(context, f"node {node} is not part of this run")
        return node, frame.channel


def _certificate(context: _Context) -> bytes:
    shown: bytes = context.auth_context().get("x509_pem_cert", [b""])[0]
    return shown


async def _refuse_misplaced(data: bytes, context: _Context, channel: int, allowed: Sequence[FrameKind]) -> None:
    try:
        frame = decoded(data)
        if frame.kind not in allowed or frame.channel != channel:
            kind = frame.kind.name.lower()
            raise BadFrame(f"a frame of kind {kind} for channel {frame.channel} on the stream of channel {channel}")
    except BadFrame as error:
        await _refuse(context, str(error), grpc.StatusCode.INVALID_ARGUMENT)


async def _refuse(context: _Context, why: str, code: Any = grpc.StatusCode.PERMISSION_DENIED) -> NoReturn:
    await context.abort(code, why)
    raise AssertionError("abort() raises")


async def _first(*waiting: asyncio.Future[Any]) -> None:
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
