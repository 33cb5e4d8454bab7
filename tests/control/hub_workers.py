"""Workers that dial in to a hub of this process: in threads of this process, or in processes of their own."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from palmette.measure.meters.base import Meter
from palmette.measure.probing import WorkerProbes
from palmette.runtime.engines.hub.access import HubAccess
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.engines.hub.building import SetupBuilder
from palmette.runtime.engines.hub.dialler import HubWorker
from palmette.runtime.engines.hub.limits import NO_LIMITS, WorkerLimits
from palmette.runtime.engines.hub.open_hubs import close_hubs, open_hub
from palmette.runtime.sync.registry import WORKER_SIDES
from palmette.runtime.transports.keys.folder import Keys
from tests.runtime.world import NODES, TINY

ALLOWED = AllowedNames(frozenset({TINY}))


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def hub_keys(folder: Path, *more: str) -> Keys:
    """Keys of the hub and the nodes."""
    keys = Keys(folder / "keys")
    keys.init()
    for node in ("hub", *NODES, *more):
        keys.issue(node)
    return keys


class DiallingWorkers:
    """A place for a hub, wherever it is, and workers that dial it in threads."""

    def __init__(self, folder: Path, listen: str = "127.0.0.1", keys: Keys | None = None) -> None:
        self.keys, port = keys or hub_keys(folder), free_port()
        self.address, self.listen = f"127.0.0.1:{port}", f"{listen}:{port}"
        self.machines = folder / "workers"
        self.workers: dict[str, HubWorker] = {}
        self.meters: dict[str, Meter] = {}
        self.errors: dict[str, Exception] = {}
        self.said: dict[str, list[str]] = {}
        self._threads: list[threading.Thread] = []

    def start(
        self,
        nodes: Sequence[str] = NODES,
        allowed: AllowedNames = ALLOWED,
        limits: WorkerLimits = NO_LIMITS,
        **how: Any,
    ) -> Self:
        for node in nodes:
            said = self.said.setdefault(node, [])
            door = HubAccess(self.address, self.keys.credentials(node), self.keys.keep_certificate)
            builder, probes = (
                SetupBuilder(allowed, WORKER_SIDES, self.folder_of(node), limits),
                WorkerProbes(allowed, self.meters.get(node)),
            )
            worker = HubWorker(lambda door=door: door, builder, probes, said.append)
            self.workers[node] = worker
            thread = threading.Thread(target=self._run, args=(node, worker, how), name=f"worker {node}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def _run(self, node: str, worker: HubWorker, how: dict[str, Any]) -> None:
        try:
            worker.run(**how)
        except Exception as error:  # noqa: BLE001  (looked at by the test)
            self.errors[node] = error

    @property
    def options(self) -> list[str]:
        """For ``palmette run``."""
        return ["--engine", "hub", "--listen", self.listen, "--keys", str(self.keys.folder)]

    def folder_of(self, node: str) -> Path:
        """The folder for temporary files on a node's machine."""
        made = self.machines / node
        made.mkdir(parents=True, exist_ok=True)
        return made

    def join(self) -> None:
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.close()
        close_hubs()
        self.join()


class HubWorkers(DiallingWorkers):
    """The same with a hub of this process."""

    def __init__(self, folder: Path, listen: str = "127.0.0.1", keys: Keys | None = None) -> None:
        super().__init__(folder, listen, keys)
        self.hub = open_hub(self.listen, self.keys.folder)  # the run's own; now, so that no worker has to wait for it


def worker_process(
    place: DiallingWorkers, node: str, *more: str, python: str = sys.executable
) -> subprocess.Popen[str]:
    """``palmette worker`` in a process of its own."""
    words = ["worker", place.address, "--keys", str(place.keys.folder), "--node", node, "--allow", TINY]
    words += ["--samples", str(place.folder_of(node)), *more]
    command = [python, "-c", "from palmette.cli import main; main()", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
