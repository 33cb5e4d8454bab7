"""Measurements on the hosts of a Ray cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from palmette.runtime.engines.probes import CarryOut, ProbeRequest, R
from palmette.runtime.engines.ray.hosts import Hosts
from palmette.runtime.transports.base import Endpoint


class RayProber:
    """Calls ``carry_out`` on the hosts of nodes; ``optional`` ones need not have one.

    Raises:
        InputError: Ray or its cluster is missing, or a node has no host.
    """

    def __init__(self, nodes: Sequence[str], optional: Sequence[str], carry_out: CarryOut) -> None:
        self._hosts, self._carry_out = Hosts(nodes, optional), carry_out
        self.nodes: Sequence[str] = list(self._hosts.addresses)

    def ask(
        self,
        requests: Mapping[str, ProbeRequest],
        kind: type[R],
        endpoints: Mapping[str, Endpoint] = MappingProxyType({}),
    ) -> dict[str, R]:
        """Have a request carried out on each host, all at the same time."""
        given = {node: (node, request, endpoints.get(node)) for node, request in requests.items()}
        found: dict[str, R] = self._hosts.together(self._carry_out, given)
        return found
