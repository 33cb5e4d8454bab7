"""The hosts of a Ray cluster: which of them stands for which node, and calls made there."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palmette.errors import ArgumentFault, Fault, InputError, NodeLost, PalmetteError, RunError, one_line
from palmette.runtime.data.kept_samples import file_name
from palmette.runtime.data.left_samples import delete_folder
from palmette.runtime.engines.ray.actor import CallActor, ServiceActor, WorkerActor
from palmette.runtime.engines.ray.join import refuse_reserved
from palmette.runtime.engines.ray.library import ray_library
from palmette.runtime.engines.service import START_PATIENCE_S
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.transports.rendezvous import Site
from palmette.runtime.transports.service import RunningService, Service
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase

# Of the node's own resource: enough to pin an actor to the host, little enough for many actors.
_A_LITTLE = 0.001
_LOOK_EVERY_S = 1.0
# How long hosts have to delete samples; starting a process there takes seconds.
_DELETE_S = 30.0


class Hosts:
    """The hosts that stand for some nodes; ``addresses`` are theirs, ``here`` is this machine's.

    Raises:
        InputError: there is no cluster, or it lacks a host for a node; those in ``wanted`` need not have one.
    """

    def __init__(self, nodes: Sequence[str], wanted: Sequence[str] = ()) -> None:
        refuse_reserved([*nodes, *wanted])
        self.ray = connected()
        known = self.ray.nodes()
        there = [node for node in wanted if any(node in host["Resources"] for host in known if host["Alive"])]
        self.addresses = addresses_of(known, [*nodes, *there])
        self.here: str = self.ray.util.get_node_ip_address()

    def site(self, _folder: Path, phase: Phase, parts: Sequence[PhasePart]) -> Site:
        """The nodes of a phase at the addresses that Ray knows; they share no folder."""
        return Site(nodes=phase.nodes(), parts=parts, addresses=self.addresses, serve=self.serve, networked=True)

    def worker(self, node: str) -> Any:
        """An actor for a worker; commands and requests for events have separate concurrency groups."""
        return self._actor(node, WorkerActor, concurrency_groups={"tell": 1, "hear": 1})

    def serve(self, node: str, service: Service) -> RunningService:
        """Start a service on a node's host.

        Raises:
            NodeLost: the host is gone.
            RunError: it cannot start.
        """
        actor = self._actor(node, ServiceActor)
        try:
            well, said = self._first_word(node, actor.serve.remote(service, START_PATIENCE_S))
            if not well:
                raise RunError(f"{service.name} cannot start: {said}")
        except BaseException:
            self.ray.kill(actor)
            raise
        return _ServedByActor(self.ray, actor, said)

    def _first_word(self, node: str, answer: Any) -> Any:
        """A service's first answer; Ray itself would wait forever for a host that is gone."""
        until = time.monotonic() + START_PATIENCE_S
        while not self.ray.wait([answer], timeout=_LOOK_EVERY_S)[0]:
            if node not in self.living() or time.monotonic() > until:
                raise NodeLost(f"node {node}: its host does not answer", node)
        try:
            return self.ray.get(answer)
        except self.ray.exceptions.RayError as error:
            raise NodeLost(f"node {node}: its host is gone: {_last_line(error)}", node) from None

    def living(self) -> set[str]:
        """The nodes whose host Ray considers alive; for a while, this includes a disconnected one."""
        return {name for host in self.ray.nodes() if host["Alive"] for name in host["Resources"]}

    def each(self, nodes: Sequence[str], function: Callable[..., Any], *given: Any) -> dict[str, Any]:
        """Call a function on the host of each node, all at the same time; returns the results.

        Raises:
            RunError: a host is lost, or the function fails there.
        """
        return self.together(function, dict.fromkeys(nodes, given))

    def together(self, function: Callable[..., Any], given: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Call a function on each host with its own arguments, all at the same time; returns the results.

        Raises:
            RunError: a host is lost, or the function fails there.
        """
        actors = {node: self._actor(node, CallActor) for node in given}
        asked = {node: actor.call.remote(function, *given[node]) for node, actor in actors.items()}
        try:
            return {node: self._answer(node, answer) for node, answer in asked.items()}
        finally:
            for actor in actors.values():
                self.ray.kill(actor)

    def delete_samples(self, folder: Path, nodes: Iterable[str]) -> None:
        """Delete what nodes keep in a folder of samples, on the hosts that answer soon."""
        actors = {node: self._actor(node, CallActor) for node in self.living().intersection(nodes)}
        asked = [actor.call.remote(delete_folder, folder / file_name(node)) for node, actor in actors.items()]
        if asked:
            self.ray.wait(asked, num_returns=len(asked), timeout=_DELETE_S)
        for actor in actors.values():
            self.ray.kill(actor)

    def _answer(self, node: str, answer: Any) -> Any:
        try:
            return self.ray.get(answer)
        except self.ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PalmetteError):
                raise error.cause from None
            raise RunError(f"node {node}: {_last_line(error)}") from None
        except self.ray.exceptions.RayError as error:
            raise RunError(f"node {node}: {_last_line(error)}") from None

    def _actor(self, node: str, kind: type, **more: Any) -> Any:
        pinned = self.ray.remote(num_cpus=0, resources={node: _A_LITTLE}, max_restarts=0, **more)
        return pinned(kind).remote()


class _ServedByActor:
    def __init__(self, ray: Any, actor: Any, said: Any) -> None:
        self._ray, self._actor, self.info = ray, actor, said

    def close(self) -> None:
        self._ray.kill(self._actor)


class RayMembership:
    """Which nodes have a host that is alive and was not lost. A node that joins again has a new host."""

    def __init__(self) -> None:
        self._ray = connected()
        self._lost: set[str] = set()

    def mark_lost(self, node: str) -> None:
        """Mark a node's host as lost, even if Ray still considers it alive."""
        self._lost |= {host["NodeID"] for host in self._known() if node in host["Resources"]}

    def forget_losses(self) -> None:
        """Mark lost hosts as available again, if Ray considers them alive."""
        self._lost.clear()

    def present(self, nodes: Iterable[str]) -> set[str]:
        """Those of some nodes that are available.

        Raises:
            RunError: the head of the cluster is gone.
        """
        counting = [host for host in self._known() if host["Alive"] and host["NodeID"] not in self._lost]
        return {node for node in nodes if any(node in host["Resources"] for host in counting)}

    def limited(self, cluster: Cluster) -> Cluster:
        """The cluster as it is: hosts of Ray trust one another, and say no limits of their own."""
        return cluster

    def _known(self) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self._ray.nodes()
        except Exception as error:  # noqa: BLE001  (of many kinds)
            raise RunError(f"the head of the Ray cluster does not answer: {_last_line(error)}") from None
        return found


def connected() -> Any:
    """Ray, connected to the cluster that this machine is a host of, or that RAY_ADDRESS names.

    Raises:
        InputError: there is none, or it refuses this process.
    """
    ray = ray_library()
    if ray.is_initialized():
        return ray
    with tempfile.TemporaryFile() as said:
        try:
            with _stderr_to(said.fileno()):
                ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except Exception as error:  # noqa: BLE001  (of many kinds)
            said.seek(0)
            raise InputError(ArgumentFault("engine", "ray", _why_not(error, said.read()))) from None
    return ray


def _why_not(error: Exception, said: bytes) -> str:
    if b"InvalidAuthToken" in said:
        return "the cluster's token is missing or wrong; expected RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    start, enter = "ray start --head --disable-usage-stats", "palmette cluster join ADDRESS --node NAME"
    return f"no cluster to connect to: {_last_line(error)}; start one with: {start}, or join one with: {enter}"


@contextmanager
def _stderr_to(descriptor: int) -> Iterator[None]:
    """Redirect stderr to a descriptor; Ray's native libraries bypass Python's ``sys.stderr``."""
    before = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def addresses_of(known: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> dict[str, str]:
    """The address of the host that stands for each node, from Ray's list of hosts.

    Raises:
        InputError: a node has no host, or several.
    """
    living = [host for host in known if host["Alive"]]
    # A host that was restarted may be listed twice for a while.
    found = {
        node: list(dict.fromkeys(host["NodeManagerAddress"] for host in living if node in host["Resources"]))
        for node in nodes
    }
    wrong = [Fault("--engine ray", node, _hint(node, there)) for node, there in found.items() if len(there) != 1]
    if wrong:
        raise InputError(wrong)
    return {node: there[0] for node, there in found.items()}


def _hint(node: str, there: Sequence[str]) -> str:
    if there:
        return f"{len(there)} hosts of the Ray cluster stand for it ({', '.join(there)}); expected one"
    return f"no host of the Ray cluster stands for it; run on its machine: palmette cluster join ADDRESS --node {node}"


def _last_line(error: Exception) -> str:
    """The last line of Ray's message; the rest is pages of advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else type(error).__name__
