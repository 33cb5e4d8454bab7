"""A service that a run needs beside its workers, such as a hub, in a process of its own on this machine.

It blocks neither the engine nor a worker, and it ends with the engine.
"""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from palmette.errors import RunError
from palmette.runtime.engines.forkserver import forkserver_context
from palmette.runtime.transports.service import ProcessInitializer, Service
from palmette.runtime.worker.failure import failure

START_PATIENCE_S = 60.0


class ServiceProcess:
    """A service on this machine.

    Raises:
        RunError: it cannot start.
    """

    def __init__(self, service: Service, initializer: ProcessInitializer | None) -> None:
        context = forkserver_context()
        self._pipe, theirs = context.Pipe()
        arguments = (service, initializer, theirs)
        self._process = context.Process(target=_be, args=arguments, name=f"palmette {service.name}", daemon=True)
        self._process.start()
        theirs.close()
        well, self.info = self._first_word()
        if not well:
            self.close()
            raise RunError(f"{service.name} cannot start: {self.info}")

    def _first_word(self) -> tuple[bool, Any]:
        try:
            if self._pipe.poll(START_PATIENCE_S):
                said: tuple[bool, Any] = self._pipe.recv()
                return said
        except EOFError:
            pass
        return False, "its process did not answer"

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _be(service: Service, initializer: ProcessInitializer | None, pipe: Connection[Any, Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the engine gets them too, and shuts down in order
    try:
        if initializer is not None:
            initializer()
        threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
        service.serve(lambda said: pipe.send((True, said)))
    except BaseException as error:  # noqa: BLE001  (sent to the engine)
        pipe.send((False, failure(error).reason))
    os._exit(1)


def _end_with(pipe: Connection[Any, Any]) -> None:
    """Exit when the other end of the pipe is closed."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        os._exit(0)
