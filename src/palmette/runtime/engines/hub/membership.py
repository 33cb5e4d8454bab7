"""Which nodes have a worker at a hub."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakSet

from palmette.runtime.engines.hub.limits import limited_cluster
from palmette.runtime.engines.hub.server import HubServer
from palmette.runtime.engines.hub.worker_connection import WorkerConnection
from palmette.spec.cluster import Cluster


class HubMembership:
    """The nodes whose workers are connected and were not lost. A worker that dials in again is a new one."""

    def __init__(self, hub: HubServer) -> None:
        self._hub = hub
        self._lost: WeakSet[WorkerConnection] = WeakSet()

    def __str__(self) -> str:
        return self._hub.address

    def mark_lost(self, node: str) -> None:
        """Mark a node's present connection as lost, and end it, so that its worker dials in again."""
        connection = self._hub.connection(node)
        if connection is not None:
            self._lost.add(connection)
            self._hub.end(connection)

    def forget_losses(self) -> None:
        """Mark lost connections as available again, if they are there."""
        self._lost.clear()

    def present(self, nodes: Iterable[str]) -> set[str]:
        """Those of some nodes that are available."""
        return {
            node
            for node in nodes
            if (connection := self._hub.connection(node)) is not None and connection not in self._lost
        }

    def limited(self, cluster: Cluster) -> Cluster:
        """The cluster within the limits of the workers that are connected."""
        return limited_cluster(cluster, {each.node: each.limits for each in self._hub.workers()})
