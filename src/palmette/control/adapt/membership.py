"""Whether the cluster has changed while a run goes on: nodes that join or leave, links that are not what they were."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from palmette.control.adapt.replanning import only
from palmette.errors import InputError
from palmette.spec.cluster import Cluster
from palmette.spec.files import load
from palmette.zoo.equip import equipped


class ClusterFile:
    """A cluster file that somebody may edit; what it says counts from the moment that it is valid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()

    def __call__(self) -> Cluster | None:
        """The cluster, if the file has changed since it was last looked at."""
        stamp = self._stamp()
        if stamp is None or stamp == self._seen:
            return None
        try:
            cluster = equipped(load(Cluster, self._path), str(self._path))
        except InputError:
            return None  # it is being written, or a person will look again
        self._seen = stamp
        return cluster

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


class Membership(Protocol):
    """Who is there of those whom a cluster names."""

    def lose(self, node: str) -> None:
        """Take a node for gone, until it comes anew or somebody says that it is back."""
        ...

    def welcome(self) -> None:
        """Take those for back that had been lost."""
        ...

    def there(self, nodes: Iterable[str]) -> set[str]:
        """Those of some nodes that are there."""
        ...


class Processes:
    """Nodes that are processes of this machine: all that were not lost can be started."""

    def __init__(self) -> None:
        self._lost: set[str] = set()

    def lose(self, node: str) -> None:
        """Take a node for gone."""
        self._lost.add(node)

    def welcome(self) -> None:
        """Take those for back that had been lost."""
        self._lost.clear()

    def there(self, nodes: Iterable[str]) -> set[str]:
        """All but the lost."""
        return set(nodes) - self._lost


def joined(whole: Cluster, present: Cluster, members: Membership) -> Cluster | None:
    """The present cluster with those of the whole one that have come, if any have; its links stay as they are."""
    missing = set(whole.nodes) - set(present.nodes)
    came = members.there(missing) if missing else set()
    if not came:
        return None
    wider = only(whole, {*present.nodes, *came})
    theirs = [link for link in wider.links if not came.isdisjoint(link.between)]
    return Cluster(nodes=wider.nodes, links=(*present.links, *theirs), sets=wider.sets)
