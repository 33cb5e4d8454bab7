"""Whether the cluster has changed while a run goes on: nodes that join or leave, links that are not what they were."""

from __future__ import annotations

from pathlib import Path

from palmette.control.adapt.replanning import only
from palmette.errors import InputError
from palmette.runtime.engines.membership import Membership
from palmette.spec.cluster import Cluster
from palmette.spec.files import load
from palmette.zoo.hardware_defaults import fill_hardware_defaults


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
            cluster = fill_hardware_defaults(load(Cluster, self._path), str(self._path))
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


def joined(whole: Cluster, present: Cluster, members: Membership) -> Cluster | None:
    """The present cluster with those of the whole one that have come, if any have; its links stay as they are."""
    missing = set(whole.nodes) - set(present.nodes)
    came = members.there(missing) if missing else set()
    if not came:
        return None
    wider = only(whole, {*present.nodes, *came})
    theirs = [link for link in wider.links if not came.isdisjoint(link.between)]
    return Cluster(nodes=wider.nodes, links=(*present.links, *theirs), sets=wider.sets)
