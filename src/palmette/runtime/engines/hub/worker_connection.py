"""The connection of a node's worker, as the engine sees it."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterable
from queue import SimpleQueue
from typing import Any

from palmette.errors import NodeLost
from palmette.runtime.engines.hub.codec import Envelope
from palmette.runtime.engines.hub.messages import TO_WORKER, ForgetKept, Introduction, RunEnded
from palmette.runtime.transports.tls.frames import alive, control_frames

# Workers wait while the engine has so many events to read; each may carry weights.
_UNREAD_EVENTS = 256
_LOOK_EVERY_S = 0.05

Said = tuple["WorkerConnection", Envelope | None]
"""What a worker said, None when its connection has ended."""


class WorkerConnection:
    """A connection; made and used in the hub's thread, but for ``send`` and ``listen``.

    It is ``replaced`` when another one of the same node counts.
    """

    def __init__(self, node: str, certificate: bytes, introduction: Introduction, context: Any) -> None:
        self.node, self.certificate, self.introduction = node, certificate, introduction
        self.since = dt.datetime.now(dt.UTC)
        self.heard_s = time.monotonic()
        self.lost = self.replaced = False
        self._context, self._loop = context, asyncio.get_running_loop()
        self._outbox: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._readers: dict[str, SimpleQueue[Said]] = {}
        self.ended = asyncio.Event()

    def send(self, message: Any, run: str) -> None:
        """Send an order or a command; from any thread."""
        data = TO_WORKER.written(message, run, self.introduction.protocol)
        self._loop.call_soon_threadsafe(self._outbox.put_nowait, data)

    def listen(self, run: str, reader: SimpleQueue[Said] | None) -> None:
        """Have what the worker says about a run put into a queue, or nowhere any more; from any thread."""
        if reader is None:
            self._readers.pop(run, None)
        else:
            self._readers[run] = reader

    def end_run(self) -> None:
        """Tell the worker that a run is over, whether or not it took part; the first version does not know of that."""
        if self.introduction.protocol > 1:
            self._outbox.put_nowait(TO_WORKER.written(RunEnded(), ""))

    def forget_kept(self, kept: Iterable[str]) -> None:
        """Tell a worker that has just come that nobody will ask for what it may have kept in these folders."""
        for each in kept if self.introduction.protocol > 1 else ():
            self._outbox.put_nowait(TO_WORKER.written(ForgetKept(kept=each), ""))

    def end(self) -> None:
        """End the connection soon."""
        self.ended.set()

    def answer(self) -> None:
        """Answer a heartbeat, unless something else is on its way: that is a sign of life, too."""
        if self._outbox.empty():
            self._outbox.put_nowait(None)

    async def write_all(self) -> None:
        """Write what is sent, as it comes."""
        while True:
            message = await self._outbox.get()
            for frame in [alive()] if message is None else control_frames(message):
                await self._context.write(frame)
            self._outbox.task_done()

    async def written(self) -> None:
        """Return when all that was sent has been written."""
        await self._outbox.join()

    async def take(self, envelope: Envelope) -> None:
        """Pass on what the worker said, if somebody listens; late words about another run are dropped."""
        while (reader := self._readers.get(envelope.run)) is not None:
            if reader.qsize() < _UNREAD_EVENTS:
                reader.put((self, envelope))
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    def lose(self) -> None:
        """Note that the connection has ended, and tell the engine."""
        self.lost = True
        for reader in list(self._readers.values()):
            reader.put((self, None))


def worker_left(node: str) -> NodeLost:
    """The error for a worker that is gone."""
    return NodeLost(f"node {node}: its worker has left, or its connection was lost", node)
