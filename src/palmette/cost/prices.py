"""What a phase costs, and each node's part of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from palmette.cost.clock import Timing
from palmette.cost.steps import Iteration
from palmette.spec.plan import Phase


@dataclass(slots=True)
class NodePrice:
    """A node's part: computing, what computing costs above idling, traffic, and the energy of what it sends."""

    busy_s: float = 0.0
    effort_s: float = 0.0
    sent_bytes: float = 0.0
    received_bytes: float = 0.0
    sending_j: float = 0.0

    def add(self, other: NodePrice, times: float) -> None:
        """Add ``times`` another price to this one."""
        self.busy_s += times * other.busy_s
        self.effort_s += times * other.effort_s
        self.sent_bytes += times * other.sent_bytes
        self.received_bytes += times * other.received_bytes
        self.sending_j += times * other.sending_j


@dataclass(slots=True)
class Price:
    """What a phase costs; energies are None where a node's power is not known.

    ``played`` is what the clock played: the whole phase, or the tree of each worker.
    """

    iteration_s: float
    iteration_j: float | None
    epoch_s: float
    epoch_j: float | None
    nodes: dict[str, NodePrice]
    epoch_parts: list[tuple[dict[str, NodePrice], float]]
    played: list[tuple[Phase, Iteration, Timing]] = field(default_factory=list)

    @property
    def epoch_nodes(self) -> dict[str, NodePrice]:
        """Each node's part of an epoch: its parts of what an epoch consists of, each as often as it happens."""
        return added(list(self.nodes), self.epoch_parts)


def added(names: list[str], parts: list[tuple[dict[str, NodePrice], float]]) -> dict[str, NodePrice]:
    """Prices of nodes added up, each as often as it says."""
    total = {name: NodePrice() for name in names}
    for nodes, often in parts:
        for name, price in nodes.items():
            total[name].add(price, often)
    return total
