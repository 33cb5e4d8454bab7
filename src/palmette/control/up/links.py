"""Links that nobody has measured yet: which they are, and how their machines measure them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from palmette.control.measured_cluster import ClusterMeasurement
from palmette.control.run.request import Request
from palmette.control.up.folder import digest
from palmette.control.up.steps import UpRequest
from palmette.spec.cluster import Cluster


def guessed_links(cluster: Cluster) -> list[str]:
    """The names of the links that the cluster file marks as guessed."""
    return ["–".join(link.between) for link in cluster.links if link.guessed]


def measured_cluster(asked: UpRequest, tell: Callable[[str], None]) -> Cluster:
    """The cluster with its links as the machines of the nodes measure them.

    Raises:
        InputError: the engine cannot start.
        RunError: a machine is lost, or has not come.
    """
    training = asked.training
    request = Request(
        engine=training.engine,
        keys=None if asked.keys is None else str(asked.keys),
        listen=training.run.listen,
        insecure=training.run.insecure,
        input_shape=training.input_shape,
    )
    return ClusterMeasurement(request, training.network, tell).measured(asked.cluster)


def link_inputs(asked: UpRequest) -> dict[str, Any]:
    """All that the measured links depend on."""
    return {"engine": asked.training.engine, "cluster": digest(asked.cluster.model_dump(mode="json"))}
