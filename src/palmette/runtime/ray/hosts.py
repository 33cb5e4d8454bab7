"""The hosts of a Ray cluster: which of them stands for which node, and things that are done there."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from palmette.errors import Fault, InputError, PalmetteError, RunError, one_line
from palmette.runtime.ray.actor import CallActor, ServiceActor, WorkerActor
from palmette.runtime.ray.joining import refuse_reserved
from palmette.runtime.ray.library import ray_library
from palmette.runtime.service import START_PATIENCE_S, Served, Service

# Of the node's own resource: enough to be put there, little enough for many.
_A_LITTLE = 0.001


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

    def worker(self, node: str) -> Any:
        """An actor for a worker; what it is told, and what it is asked for, wait in lines of their own."""
        return self._actor(node, WorkerActor, concurrency_groups={"tell": 1, "hear": 1})

    def serve(self, node: str, service: Service) -> Served:
        """A service on a node's host.

        Raises:
            RunError: it cannot start.
        """
        return _ServedByActor(self.ray, self._actor(node, ServiceActor), service)

    def each(self, nodes: Sequence[str], function: Callable[..., Any], *given: Any) -> dict[str, Any]:
        """What a function gives on the host of each node, all at the same time.

        Raises:
            RunError: a host is lost, or the function fails there.
        """
        return self.together(function, dict.fromkeys(nodes, given))

    def together(self, function: Callable[..., Any], given: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """What a function gives on each host, all at the same time, each with arguments of its own.

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
    def __init__(self, ray: Any, actor: Any, service: Service) -> None:
        self._ray, self._actor = ray, actor
        try:
            well, self.said = ray.get(actor.serve.remote(service, START_PATIENCE_S))
        except ray.exceptions.RayError as error:
            well, self.said = False, _last_line(error)
        if not well:
            self.close()
            raise RunError(f"{service.name} cannot start: {self.said}")

    def close(self) -> None:
        self._ray.kill(self._actor)


def connected() -> Any:
    """Ray, connected to the cluster that this machine is a host of, or that RAY_ADDRESS names.

    Raises:
        InputError: there is none, or it does not let this process in.
    """
    ray = ray_library()
    if ray.is_initialized():
        return ray
    with tempfile.TemporaryFile() as said:
        try:
            with _stderr_to(said.fileno()):
                ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
        except Exception as error:  # noqa: BLE001  (of many kinds, by the reason)
            said.seek(0)
            raise InputError(Fault("--engine", "ray", _why_not(error, said.read()))) from None
    return ray


def _why_not(error: Exception, said: bytes) -> str:
    if b"InvalidAuthToken" in said:
        return "the cluster's token is missing or wrong; expected RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    hint = "start one with: ray start --head, or join one with: palmette cluster join ADDRESS --node NAME"
    return f"no cluster to connect to: {_last_line(error)}; {hint}"


@contextmanager
def _stderr_to(descriptor: int) -> Iterator[None]:
    """Let what Ray's own libraries say go elsewhere meanwhile; they do not ask Python."""
    before = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def addresses_of(known: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> dict[str, str]:
    """The address of the host that stands for each node, by what Ray says of its hosts.

    Raises:
        InputError: a node has no host, or several.
    """
    living = [host for host in known if host["Alive"]]
    found = {node: [host["NodeManagerAddress"] for host in living if node in host["Resources"]] for node in nodes}
    wrong = [Fault("--engine ray", node, _hint(node, there)) for node, there in found.items() if len(there) != 1]
    if wrong:
        raise InputError(wrong)
    return {node: there[0] for node, there in found.items()}


def _hint(node: str, there: Sequence[str]) -> str:
    if there:
        return f"{len(there)} hosts of the Ray cluster stand for it ({', '.join(there)}); expected one"
    return f"no host of the Ray cluster stands for it; there: palmette cluster join ADDRESS --node {node}"


def _last_line(error: Exception) -> str:
    """What Ray says in its last line; before it come pages of advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else type(error).__name__
