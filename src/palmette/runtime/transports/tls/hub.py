"""The hub: relays between the two streams of every channel, and refuses all others.

A worker opens a control stream (``Attend``) and one for each of its channels (``Carry``). The hub accepts a node's name
only if the certificate has the same, was issued by the authority and has not been revoked, and gives a node only its
own ends of channels, each once. Workers send heartbeats on a connection separate from the messages', and the hub
returns them. When a worker ends without a farewell, or has been silent for some seconds, the hub informs all others.
Background traffic comes on one more connection, which the hub marks, so that what it sends there is marked, too.

    sender ═ data ═▶ hub ═ data ═▶ receiver
           ◀ grant ══   ◀ grant ══         or credit
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import grpc
import grpc.aio

from palmette.errors import RunError
from palmette.runtime.program import Channel
from palmette.runtime.transports.heartbeat import ASLEEP_S, SILENCE_S
from palmette.runtime.transports.keys.audit import AuditEvent
from palmette.runtime.transports.keys.certificates import Roles
from palmette.runtime.transports.keys.credentials import Credentials
from palmette.runtime.transports.keys.held import HeldKeys, KeySource, key_source
from palmette.runtime.transports.liveness import Liveness
from palmette.runtime.transports.marking import mark_from
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
BACKGROUND = ("traffic", "background")
"""What a worker says of a stream on a connection that carries nothing but background traffic."""
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
        auth = PeerAuthentication(own, keys)
        desk = _OneRun(Hub(self.token, self.nodes, self.channels, auth), auth, own)
        host = f"[{self.address}]" if ":" in self.address else self.address
        server, port = await listen(own, f"{host}:0", {"Attend": desk.attend, "Carry": desk.carry})
        local = self.local if self.local is not None and len(str(self.local)) <= LONGEST_PATH else None
        if local is not None:
            await desk.serve_locally(local)
        ready(HubAddress(self.node, f"{host}:{port}", own.certificate, local))
        await server.wait_for_termination()


class _OneRun:
    """Serves the streams of one run, over the network and on this machine."""

    def __init__(self, hub: Hub, auth: PeerAuthentication, own: Credentials) -> None:
        self._hub, self._auth, self._own = hub, auth, own

    async def attend(self, stream: _Stream, context: _Context) -> None:
        await self._hub.attend(await self._auth.introduced(stream, context), stream, context)

    async def carry(self, stream: _Stream, context: _Context) -> None:
        await self._hub.carry(await self._auth.introduced(stream, context), stream, context)

    async def serve_locally(self, path: Path) -> None:
        """Listen on a local socket as well."""
        self._here = await asyncio.start_unix_server(self._locally, path)

    async def _locally(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = LocalContext(writer, self._own.certificate)
        try:
            method = await reader.readexactly(1)
            await (self.attend if method == b"A" else self.carry)(frames(reader), context)
        except (Aborted, ConnectionError, asyncio.IncompleteReadError):
            pass  # the worker knows why, or is gone
        finally:
            writer.close()


class _Ends:
    """The two ends of a channel, as they connect."""

    def __init__(self) -> None:
        self.contexts: dict[str, _Context] = {}
        self.both = asyncio.Event()


class Hub:
    """Workers and channels of one run, which is identified by ``token``.

    ``heard`` is called with the node of every frame that arrives.
    """

    def __init__(
        self,
        token: bytes,
        nodes: Sequence[str],
        channels: Sequence[Channel],
        auth: PeerAuthentication,
        heard: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._token, self._nodes, self._auth, self._heard = token, list(nodes), auth, heard
        self._channels = {channel.number: channel for channel in channels}
        self._ends = {number: _Ends() for number in self._channels}
        self._present: dict[str, _Context] = {}
        self._complete = asyncio.Event()
        self._lost: asyncio.Future[_Loss] = asyncio.get_running_loop().create_future()
        self._liveness = Liveness(SILENCE_S, ASLEEP_S)
        self._watching = asyncio.ensure_future(self._watch())

    def close(self) -> None:
        """End the streams of all workers."""
        self._watching.cancel()
        if not self._lost.done():
            self._lost.set_result((grpc.StatusCode.CANCELLED, "the run is over"))

    async def attend(self, came: StreamOpening, stream: _Stream, context: _Context) -> None:
        """Serve a worker's control stream."""
        node = came.node
        await self._refuse_other(came, context)
        if came.channel != NO_CHANNEL:
            await refuse(context, f"a control stream with channel {came.channel}; expected none")
        if node in self._present:
            await refuse(context, f"node {node} is connected already")
        self._present[node] = context
        self._auth.note_join(node)
        leaving = asyncio.ensure_future(self._farewell(came, stream, context))
        complete = asyncio.ensure_future(self._complete.wait())
        try:
            if len(self._present) == len(self._nodes):
                self._complete.set()
            await _first(complete, leaving, self._lost)
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
            complete.cancel()  # others may never come

    async def _farewell(self, came: StreamOpening, stream: _Stream, context: _Context) -> bool:
        """Answer heartbeats until a worker leaves; returns whether it said farewell."""
        try:
            async for data in stream:
                kind = decoded(data).kind
                if kind is not FrameKind.ALIVE:
                    return kind is FrameKind.FAREWELL
                self._note(came.node)
                if self._auth.has_revoked(came):
                    return False
                await context.write(alive())
        except BadFrame:
            pass
        return False

    def _note(self, node: str) -> None:
        """Note a frame of a node; until it has been welcomed, it is not watched."""
        self._heard(node)
        if self._liveness.is_known(node):
            self._liveness.heard([node], time.monotonic())

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

    async def carry(self, came: StreamOpening, stream: _Stream, context: _Context) -> None:
        """Relay what comes on the stream of a channel."""
        node, number = came.node, came.channel
        await self._refuse_other(came, context)
        channel = self._channels.get(number)
        if channel is None or node not in (channel.sender, channel.receiver):
            await refuse(context, f"node {node} does not use channel {number}")
        ends = self._ends[number]
        if node in ends.contexts:
            await refuse(context, f"node {node} uses channel {number} already")
        ends.contexts[node] = context
        if BACKGROUND in context.invocation_metadata():
            mark_from(context.peer())
        if len(ends.contexts) == 2:
            ends.both.set()
        await ends.both.wait()
        (other,) = (each for name, each in ends.contexts.items() if name != node)
        allowed = _FROM_SENDER if node == channel.sender else _FROM_RECEIVER
        async for data in stream:
            if self._lost.done():
                return  # nothing more of a node that is lost, or was revoked, reaches the others
            await _refuse_misplaced(data, context, number, allowed)
            self._note(node)
            try:
                await other.write(data)
            except Exception:  # noqa: BLE001  (of many kinds: the other end is gone, as its control stream shows)
                return

    async def _refuse_other(self, came: StreamOpening, context: _Context) -> None:
        if not secrets.compare_digest(came.token, self._token):
            await refuse(context, f"node {came.node} belongs to another run")
        if came.node not in self._nodes:
            await refuse(context, f"node {came.node} is not part of this run")


class StreamOpening(NamedTuple):
    """Who opens a stream: for which run, as which node, which its certificate proves, and for which channel, if any."""

    token: bytes
    node: str
    channel: int
    certificate: bytes


class PeerAuthentication:
    """Finds out who opens a stream, and refuses all whose certificate does not prove it; keeps the audit log."""

    def __init__(self, own: Credentials, keys: KeySource) -> None:
        self._own, self._keys = own, keys

    async def introduced(self, stream: _Stream, context: _Context, roles: Roles = ("worker",)) -> StreamOpening:
        """Who opens a stream; only the holder of a valid certificate for one of the roles may."""
        try:
            frame = decoded(await asyncio.wait_for(anext(aiter(stream)), _HANDSHAKE_PATIENCE_MS / 1000))
            token, node = read_hello(frame)
        except TimeoutError:  # an overloaded machine, or a network that is gone: it may try again
            await refuse(context, "no hello was received in time", grpc.StatusCode.UNAVAILABLE)
        except (BadFrame, StopAsyncIteration) as error:
            await refuse(context, str(error) or "no hello was received")
        shown = context.auth_context().get("x509_pem_cert", [b""])[0]
        wrong = self.objection(shown, node, roles)
        if wrong is not None:
            self.note("refusal", node=node, why=wrong)
            await refuse(context, f"the certificate shown for node {node} is not valid: {wrong}")
        return StreamOpening(token, node, frame.channel, shown)

    def objection(self, shown: bytes, node: str, roles: Roles = ("worker",)) -> str | None:
        """Why a certificate is not valid for a node and a role now: it may have been revoked meanwhile."""
        self._own = self._keys.renewed(self._own)
        return self._own.objection(shown, node, roles)

    def has_revoked(self, came: StreamOpening) -> bool:
        """Whether a node that was let in has been revoked since."""
        self._own = self._keys.renewed(self._own)
        revoked = self._own.has_revoked(came.certificate)
        if revoked:
            self.note("refusal", node=came.node, why="it was revoked while it was connected")
        return revoked

    def note_join(self, node: str) -> None:
        """Note in the audit log that a node was let in."""
        self.note("join", node=node)

    def note(self, event: AuditEvent, **about: str) -> None:
        """Note in the audit log what was seen."""
        self._keys.note(event, **about)


async def listen(
    own: Credentials,
    address: str,
    methods: Mapping[str, Any],
    renewed: Callable[[], Credentials | None] | None = None,
) -> tuple[Any, int]:
    """Serve methods at an address, host:port, to holders of certificates; returns the server and its port.

    ``renewed`` is asked in every handshake, in another thread, for later credentials of its own, if there are any.

    Raises:
        RunError: the address cannot be used.
    """
    server = grpc.aio.server(options=SERVER_OPTIONS)
    handlers = {name: grpc.stream_stream_rpc_method_handler(method) for name, method in methods.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    def later() -> Any:
        found = None if renewed is None else renewed()
        return None if found is None else _shown(found)

    secured = grpc.dynamic_ssl_server_credentials(_shown(own), later, require_client_authentication=True)
    try:
        port = server.add_secure_port(address, secured)
    except RuntimeError:
        raise RunError(f"cannot listen at {address}: it is in use, or no address of this machine") from None
    await server.start()
    return server, port


def _shown(own: Credentials) -> Any:
    """What a server shows in a handshake, and whom it believes."""
    return grpc.ssl_server_certificate_configuration([(own.key, own.certificate)], own.authority)


async def _refuse_misplaced(data: bytes, context: _Context, channel: int, allowed: Sequence[FrameKind]) -> None:
    try:
        frame = decoded(data)
        if frame.kind not in allowed or frame.channel != channel:
            kind = frame.kind.name.lower()
            raise BadFrame(f"a frame of kind {kind} for channel {frame.channel} on the stream of channel {channel}")
    except BadFrame as error:
        await refuse(context, str(error), grpc.StatusCode.INVALID_ARGUMENT)


async def refuse(context: _Context, why: str, code: Any = grpc.StatusCode.PERMISSION_DENIED) -> NoReturn:
    """End a stream, and say why."""
    await context.abort(code, why)
    raise AssertionError("abort() raises")


async def _first(*waiting: asyncio.Future[Any]) -> None:
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
