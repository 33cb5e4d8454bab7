"""A hub and its workers, which stay over many runs: behind routers that let nobody in, or on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from benchmarks.home_networks import HomeNetwork, Worker
from palmette.errors import RunError
from palmette.runtime.engines.hub.open_hubs import close_hubs, open_hub
from palmette.runtime.transports.keys.folder import Keys

NODES = ("phone", "server", "cloud")
_PATIENCE_S = 180.0
_LOOK_EVERY_S = 2.0
_FAREWELL_S = 30.0


class HubPlace:
    """A hub of this process, and a process of ``palmette worker`` for each node, each behind a NAT with ``nat``."""

    def __init__(self, folder: Path, *, nat: bool) -> None:
        self.keys, self._nat, self._stack = Keys(folder / "keys"), nat, ExitStack()
        self.networks: dict[str, HomeNetwork] = {}
        self._workers: dict[str, Worker] = {}

    def __enter__(self) -> Self:
        self.keys.init()
        for name in ("hub", *NODES):
            self.keys.issue(name)
        self.listen = f"{'0.0.0.0' if self._nat else '127.0.0.1'}:{_free_port()}"
        self._hub = open_hub(self.listen, self.keys.folder)
        self._stack.callback(close_hubs)
        try:
            if self._nat:
                self.networks = {n: self._stack.enter_context(HomeNetwork(20 + k)) for k, n in enumerate(NODES)}
            self.mend()
        except BaseException:
            self.__exit__()
            raise
        return self

    @property
    def request(self) -> dict[str, Any]:
        """How a run reaches these workers."""
        return {"engine": "hub", "listen": self.listen, "keys": str(self.keys.folder)}

    @property
    def pids(self) -> dict[str, int]:
        """The processes of the workers."""
        return {node: worker.process.pid for node, worker in self._workers.items()}

    def mend(self) -> None:
        """What whoever looks after the machines does: plug in, wake up, start again, issue again; then all come back.

        Raises:
            RunError: a worker does not come back by itself.
        """
        for network in self.networks.values():
            network.plug_in()
        for each in self.keys.entries():
            if each.state != "valid":
                self.keys.issue(each.node)
        for node in NODES:
            if node in self._workers:
                with suppress(ProcessLookupError):
                    os.kill(self._workers[node].process.pid, signal.SIGCONT)
        until_s = time.monotonic() + _PATIENCE_S
        while missing := self._missing():
            if time.monotonic() > until_s:
                raise RunError(f"no worker of {', '.join(sorted(missing))} has come back")

    def _missing(self) -> set[str]:
        """Start workers whose processes have ended, wait a little; returns the nodes whose workers are not there."""
        for node in NODES:
            if node not in self._workers or self._workers[node].process.poll() is not None:
                self._workers[node] = self._started(node)
        return self._hub.wait_for(NODES, _LOOK_EVERY_S)

    def _started(self, node: str) -> Worker:
        port = int(self.listen.rpartition(":")[2])
        if self._nat:
            return self.networks[node].worker(self.keys.folder, node, port, "--quiet")
        words = ["worker", f"127.0.0.1:{port}", "--keys", str(self.keys.folder), "--node", node, "--quiet"]
        return Worker([], words, {})

    def end(self) -> int:
        """Ask all workers to end, once who has just come back knows what to forget; returns how many do not."""
        time.sleep(_LOOK_EVERY_S)
        for worker in self._workers.values():
            worker.process.terminate()
        left = 0
        for worker in self._workers.values():
            try:
                worker.process.communicate(timeout=_FAREWELL_S)
            except subprocess.TimeoutExpired:
                left += 1
        return left

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.__exit__()
        self._stack.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
