"""The hub as a process of its own: neither the engine nor a worker has to wait for it, and it ends with the engine."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from palmette.errors import RunError
from palmette.runtime.failure import failure
from palmette.runtime.forking import forking
from palmette.runtime.keys.folder import Keys
from palmette.runtime.program import Channel
from palmette.runtime.tls.hub import Hub, HubAddress

_START_PATIENCE_S = 60.0


@dataclass(frozen=True)
class HubSetup:
    """All that a hub is told when it starts; ``address`` is where it listens, ``keys`` where it finds its node's."""

    node: str
    keys: Path
    token: bytes = field(repr=False)
    nodes: Sequence[str]
    channels: Sequence[Channel]
    address: str

    async def serve(self, listening: Callable[[HubAddress], None]) -> None:
        """Be the hub for ever; ``listening`` is told where."""
        own = Keys(self.keys).credentials(self.node)
        server, port = await Hub(own, self.token, self.nodes, self.channels).serve(self.address)
        listening(HubAddress(self.node, f"{self.address}:{port}", own.certificate))
        await server.wait_for_termination()


class HubProcess:
    """A hub on this machine.

    Raises:
        RunError: it cannot listen there.
    """

    def __init__(self, setup: HubSetup, entrance: Callable[[], None] | None) -> None:
        context = forking()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_be, args=(setup, entrance, theirs), name="palmette hub", daemon=True)
        self._process.start()
        theirs.close()
        said = self._first_word()
        if not isinstance(said, HubAddress):
            self.close()
            raise RunError(f"the hub on node {setup.node} cannot start: {said}")
        self.address = said

    def _first_word(self) -> HubAddress | str:
        try:
            if self._pipe.poll(_START_PATIENCE_S):
                said: HubAddress | str = self._pipe.recv()
                return said
        except EOFError:
            pass
        return "its process does not answer"

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _be(setup: HubSetup, entrance: Callable[[], None] | None, pipe: Connection[Any, Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # they reach the engine, which ends all in good order
    try:
        if entrance is not None:
            entrance()
        threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
        asyncio.run(setup.serve(pipe.send))
    except BaseException as error:  # noqa: BLE001  (told to the engine)
        pipe.send(failure(error).reason)
    os._exit(1)


def _end_with(pipe: Connection[Any, Any]) -> None:
    """End this process when the other end of the pipe is gone."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        os._exit(0)
