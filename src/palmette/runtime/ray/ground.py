"""Real hosts to stand on: nothing is emulated, and workers meet at the addresses that Ray knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from palmette.cost.evaluate import Evaluator
from palmette.runtime.execute import Pace
from palmette.runtime.ground import Seconds
from palmette.runtime.meeting import Meeting, Site
from palmette.runtime.parts import Part
from palmette.runtime.ray.hosts import Hosts
from palmette.runtime.service import Entrance
from palmette.runtime.worker import Place
from palmette.spec.plan import Phase


class RayGround:
    """The hosts of a Ray cluster."""

    name = "none"
    dilation = 1.0
    emulates = False

    def __init__(self, hosts: Hosts, meeting: Meeting) -> None:
        self._hosts, self._meeting = hosts, meeting

    def open(self, phase: Phase, parts: Sequence[Part], evaluator: Evaluator) -> None:
        """Get ready to meet."""
        hosts = self._hosts
        self._meeting.open(Site(nodes=phase.nodes(), parts=parts, addresses=hosts.addresses, serve=hosts.serve))

    def place(self, node: str) -> Place:
        """At the host's address."""
        return self._meeting.place(node)

    def entrance(self, node: str) -> Entrance | None:
        """Nothing to do."""
        return None

    def settle(self, rehearsed: Mapping[str, Mapping[int, Seconds]]) -> dict[str, dict[int, Pace]]:
        """Nothing is padded."""
        return {}

    def close(self) -> None:
        """End the meeting."""
        self._meeting.close()
