"""Meters of nodes, read while a run goes on: measured joules beside modelled ones, and limits of energy that hold.

A meter is read where the run was started: the log of a smart plug or a battery may be of any node, Zeus only of this
machine. That of a worker at a hub is read on its own machine, now and then, since each reading is a message. What a
node used while it would have been idle is told apart by the idle watts that the cluster file declares.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from palmette.control.run.callbacks import RunStart
from palmette.errors import ArgumentFault, InputError, NodeLost, RunError, expected_name
from palmette.measure.meters.base import Meter
from palmette.measure.meters.registry import METERS, open_meter
from palmette.runtime.training.job import ProgressUpdate, RunOutcome
from palmette.spec.cluster import Cluster, Node
from palmette.spec.reading import energy

OF_WORKER = "worker"
"""Names the meter that a node's worker was given."""
_WORKER_READ_EVERY_S = 2.0


@dataclass
class _Metered:
    """What a node's meter has told so far; ``most_j`` is the most of one interval between two readings.

    It is read no more often than ``every_s``.
    """

    meter: Meter
    node: Node
    every_s: float = 0.0
    read_s: float = -math.inf
    seconds: float = 0.0
    joules: float = 0.0
    most_j: float = 0.0
    failed: str | None = None

    def read(self, *, at_once: bool = False) -> None:
        """Add the interval that ends now, and begin the next; not yet, if it has just been read."""
        if self.failed is not None or not (at_once or time.monotonic() - self.read_s >= self.every_s):
            return
        self.read_s = time.monotonic()
        try:
            found = self.meter.end()
        except NodeLost:
            return  # the interval goes on until it is back
        except RunError as error:
            self.failed = str(error)  # the training goes on without it
            return
        self.seconds, self.joules = self.seconds + found.seconds, self.joules + found.joules
        self.most_j = max(self.most_j, found.joules)
        self.meter.begin()

    def record(self) -> dict[str, Any]:
        """As in ``run.json``."""
        found = {"energy_j": self.joules, "seconds": self.seconds, "source": self.meter.source, "failed": self.failed}
        if self.node.power is None:
            return {**found, "idle_j": None, "busy_j": None}
        idle_j = min(self.joules, self.node.power.idle_w * self.seconds)
        return {**found, "idle_j": idle_j, "busy_j": self.joules - idle_j}


class RunMeters:
    """The meters of a run, and a callback of it; ``here``: its only node is this machine.

    ``of_worker`` opens the meter of a node's worker, where workers may have some.

    Raises:
        InputError: there is no such node or meter, or it does not work here.
        RunError: a worker has no meter.
    """

    def __init__(
        self, asked: Sequence[str], cluster: Cluster, *, here: bool, of_worker: Callable[[str], Meter] | None = None
    ) -> None:
        self._metered: dict[str, _Metered] = {}
        self._spent: set[str] = set()
        for text in asked:
            node, kind = _parsed(text, cluster)
            if kind == OF_WORKER and of_worker is not None:
                self._metered[node] = _Metered(of_worker(node), cluster.nodes[node], _WORKER_READ_EVERY_S)
                continue
            known = METERS.get(kind.partition(":")[0])
            if known is not None and known.of_this_machine and not here:
                expected = "reads this machine, which is none of the nodes alone; expected a log: NODE=replay:FILE"
                raise InputError(ArgumentFault("meter", text, expected))
            self._metered[node] = _Metered(open_meter(kind), cluster.nodes[node])

    def restore(self, before: Mapping[str, Any]) -> None:
        """Add what ``record`` gave in an earlier part of the same run; of what is none, nothing."""
        for node, each in self._metered.items():
            known = before.get(node)
            if isinstance(known, dict):
                each.seconds, each.joules = (_amount(known.get(name)) for name in ("seconds", "energy_j"))

    def on_start(self, start: RunStart) -> None:
        """Begin."""
        for each in self._metered.values():
            each.meter.begin()

    def on_step(self, update: ProgressUpdate) -> None:
        """Read all meters.

        Raises:
            NodeLost: another such interval could exceed a node's limit of energy; the run goes on without the node.
        """
        for name, each in self._metered.items():
            each.read()
            limit_j = each.node.limits.energy_j
            if limit_j is not None and name not in self._spent and each.joules + each.most_j > limit_j:
                self._spent.add(name)
                used = f"{energy(each.joules)} of {energy(limit_j)} are used"
                raise NodeLost(f"node {name}: its limit of energy is reached: {used}", name)

    def on_end(self, outcome: RunOutcome) -> None:
        """Read all meters for the last time."""
        for each in self._metered.values():
            each.read(at_once=True)

    def record(self) -> dict[str, Any]:
        """What was measured, by node."""
        return {name: each.record() for name, each in self._metered.items()}


def _amount(written: Any) -> float:
    return float(written) if isinstance(written, int | float) and 0 <= written < math.inf else 0.0


def _parsed(text: str, cluster: Cluster) -> tuple[str, str]:
    node, equals, kind = text.partition("=")
    if not equals:
        raise InputError(ArgumentFault("meter", text, "expected NODE=METER, such as phone=replay:plug.csv"))
    if node not in cluster.nodes:
        raise InputError(ArgumentFault("meter", text, expected_name(node, "node", list(cluster.nodes))))
    return node, kind
