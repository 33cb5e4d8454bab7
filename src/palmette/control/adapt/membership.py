"""Whether nodes have joined or left while a run goes on."""

from __future__ import annotations

from pathlib import Path

from palmette.control.adapt.replanning import subcluster
from palmette.errors import InputError
from palmette.runtime.engines.membership import Membership
from palmette.spec.cluster import Cluster
from palmette.spec.files import load
from palmette.zoo.hardware_defaults import fill_hardware_defaults


class ClusterFile:
    """A cluster file that a user may edit during a run; it counts as soon as it is valid."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._stamp()

    def __call__(self) -> Cluster | None:
        """The cluster, if the file has changed since the last call."""
        stamp = self._stamp()
        if stamp is None or stamp == self._seen:
            return None
        try:
            cluster = fill_hardware_defaults(load(Cluster, self._path), str(self._path))
        except InputError:
            return None  # it is being written, or the user will correct it
        self._seen = stamp
        return cluster

    def _stamp(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size


def present_nodes(cluster: Cluster, members: Membership) -> set[str]:
    """The nodes of a cluster that are there; a relay has no worker that could be missed."""
    computing = cluster.computing
    return members.present(computing) | (set(cluster.nodes) - set(computing))


def with_joined_nodes(whole: Cluster, current: Cluster, members: Membership) -> Cluster | None:
    """The current cluster with those nodes of the whole one that have joined, if any; its links stay as they are."""
    missing = set(whole.nodes) - set(current.nodes)
    new = members.present(missing) if missing else set()
    if not new:
        return None
    larger = subcluster(whole, {*current.nodes, *new})
    links = [link for link in larger.links if not new.isdisjoint(link.between)]
    return larger.model_copy(update={"links": (*current.links, *links)})
