"""Workers on hosts of a Ray cluster.

Every actor always has a pending call that returns its next events. Ray reports a process or host that is gone; missing
heartbeats reveal a worker that is frozen or disconnected.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from palmette.errors import NodeLost
from palmette.runtime.engines.crew import ABSENCE_S, LAST_WORDS_S, pickled_setup
from palmette.runtime.engines.ray.heartbeats import HeartbeatReceiver
from palmette.runtime.engines.ray.hosts import Hosts
from palmette.runtime.engines.remote_crew import LOOK_EVERY_S, RemoteCrew
from palmette.runtime.transports.service import ProcessInitializer
from palmette.runtime.worker.commands import Command, Stop
from palmette.runtime.worker.setup import Setup


class RayCrew(RemoteCrew):
    """One actor per node, on the host that stands for it."""

    def __init__(
        self, hosts: Hosts, setups: Mapping[str, Setup], initializers: Mapping[str, ProcessInitializer | None]
    ) -> None:
        super().__init__(setups)
        self._hosts, self._ray = hosts, hosts.ray
        self._actors: dict[str, Any] = {}
        self._asked: dict[Any, str] = {}
        self._asked_s = time.monotonic()
        self._heartbeats = HeartbeatReceiver(hosts.here, list(setups))
        try:
            for node, setup in setups.items():
                self._actors[node] = hosts.worker(node)
                self._call(node, "start", pickled_setup(node, setup), self._heartbeats.sender(node))
                self._listen(node)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> dict[str, int]:
        """The process id of each node's worker, on its host."""
        return {node: self._ray.get(self._call(node, "pid")) for node in self._actors}

    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""
        self._call(node, "tell", command)

    def close(self) -> None:
        """Ask all workers to stop, and kill their processes."""
        now = self._look_out()
        told = [
            self._call(node, "tell", Stop()) for node in self._actors if self._liveness.silent_s(node, now) < ABSENCE_S
        ]
        if told:
            self._ray.wait(told, num_returns=len(told), timeout=LAST_WORDS_S)
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors.clear()
        self._heartbeats.close()

    def _call(self, node: str, method: str, *given: Any, group: str = "tell") -> Any:
        return getattr(self._actors[node], method).options(concurrency_group=group).remote(*given)

    def _listen(self, node: str) -> None:
        self._asked[self._call(node, "hear", group="hear")] = node

    def _look(self, timeout_s: float) -> str | None:
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=timeout_s)
        for answer in ready:
            node = self._asked.pop(answer)
            try:
                there_s, said = self._ray.get(answer)
            except self._ray.exceptions.RayError:
                return node
            self._listen(node)
            self._hear(node, said, there_s)
        return None

    def _heard(self) -> Iterable[str]:
        return self._heartbeats.seen()

    def _is_gone(self, node: str) -> bool:
        return node not in self._asked.values()

    def _loss(self, node: str) -> NodeLost:
        return NodeLost(f"node {node}: its worker died, or its host is gone", node)

    def _refuse_silent(self) -> None:
        super()._refuse_silent()
        self._refuse_absent()

    def _refuse_absent(self) -> None:
        """Raise for a worker that cannot start because its host is gone."""
        starting = [node for node in self._actors if not self._liveness.is_known(node)]
        if not starting or time.monotonic() - self._asked_s < LOOK_EVERY_S:
            return
        living = self._hosts.living()
        self._asked_s = time.monotonic()
        for node in starting:
            if node not in living:
                raise self._loss(node)
