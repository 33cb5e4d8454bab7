"""Which nodes are available, as far as an engine can tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from palmette.spec.cluster import Cluster


class Membership(Protocol):
    """Which of a cluster's nodes are available."""

    def mark_lost(self, node: str) -> None:
        """Mark a node as lost, until it joins again or ``welcome`` is called."""
        ...

    def forget_losses(self) -> None:
        """Mark all lost nodes as available again."""
        ...

    def present(self, nodes: Iterable[str]) -> set[str]:
        """Those of some nodes that are available."""
        ...

    def limited(self, cluster: Cluster) -> Cluster:
        """The cluster within what the owners of its machines allow, as far as they have said so."""
        ...


class LocalMembership:
    """Nodes that are processes on this machine: all are available that were not lost."""

    def __init__(self) -> None:
        self._lost: set[str] = set()

    def mark_lost(self, node: str) -> None:
        """Mark a node as lost."""
        self._lost.add(node)

    def forget_losses(self) -> None:
        """Mark all lost nodes as available again."""
        self._lost.clear()

    def present(self, nodes: Iterable[str]) -> set[str]:
        """All that were not lost."""
        return set(nodes) - self._lost

    def limited(self, cluster: Cluster) -> Cluster:
        """The cluster as it is."""
        return cluster
