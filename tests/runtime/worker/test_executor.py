"""What the threads of a program do at its end."""

from __future__ import annotations

from typing import Any

from palmette.runtime.transports.base import TransportClosed
from palmette.runtime.transports.memory import MemoryTransport
from palmette.runtime.worker.commands import Execute
from tests.cost.small import instance, phase, source
from tests.runtime.rig import Rig
from tests.runtime.test_equality import images, three


class Closed(MemoryTransport):
    """One that its own worker has closed while a message was about to leave."""

    def send(self, *_: Any, **__: Any) -> None:
        raise TransportClosed


class ClosedRig(Rig):
    def transport(self) -> MemoryTransport:
        return Closed()


def test_a_worker_that_leaves_does_not_report_its_own_farewell_as_a_failure() -> None:
    """The others would end with it, instead of going on without it."""
    made, chain = images(), phase(source("a", 4, "A"), instance("A", 1, 2, "a", "B"), instance("B", 3, 5, "b"))
    with ClosedRig(made.layers, made.shape).crew(chain, three()) as (crew, programs):
        for node in programs:
            crew.send(node, Execute(0, 0, 0))
        assert crew.receive(1.0) is None
