"""What a phase costs, and each node's part of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from palmette.cost.clock import Timing
from palmette.cost.steps import Iteration
from palmette.spec.plan import Phase


@dataclass(slots=True)
class NodePrice:
    """A node's part: computing, what that costs above idling, traffic, and the energy of sending and of its radio."""

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


NodeParts = list[tuple[dict[str, NodePrice], float]]
"""Each node's part of some operations, and how often these happen."""


@dataclass(slots=True)
class EpochPrice:
    """What an epoch costs; its energy is None where a node's power is not known."""

    time_s: float
    energy_j: float | None
    parts: NodeParts

    @property
    def nodes(self) -> dict[str, NodePrice]:
        """Each node's part of the epoch."""
        return added(list(dict.fromkeys(name for nodes, _ in self.parts for name in nodes)), self.parts)

    @property
    def sent_bytes(self) -> float:
        """All bytes that nodes send each other."""
        return sum(often * price.sent_bytes for nodes, often in self.parts for price in nodes.values())


@dataclass(slots=True)
class Price:
    """What a phase costs; energies are None where a node's power is not known.

    ``iteration_s`` is a steady iteration of ``epoch``, an epoch in which samples that are kept have arrived;
    ``first_epoch`` is the one in which they arrive, and its steady iteration. ``first_iteration_s`` is the very first.
    ``played`` is what the clock played: the whole phase, or the tree of each worker.
    """

    iteration_s: float
    iteration_j: float | None
    nodes: dict[str, NodePrice]
    epoch: EpochPrice
    first_epoch: EpochPrice
    epoch_iterations: float
    first_iteration_s: float
    first_epoch_iteration_s: float
    played: list[tuple[Phase, Iteration, Timing]] = field(default_factory=list)

    def total_s(self, epochs: float, *, delivered: bool = False) -> float:
        """Seconds of so many epochs; ``delivered``: the samples that nodes keep are there from the beginning."""
        first_s = self.epoch.time_s if delivered else self.first_epoch.time_s
        return first_s + (epochs - 1) * self.epoch.time_s

    def total_j(self, epochs: float, *, delivered: bool = False) -> float | None:
        """Joules of so many epochs."""
        first_j, later_j = (self.epoch if delivered else self.first_epoch).energy_j, self.epoch.energy_j
        return None if first_j is None or later_j is None else first_j + (epochs - 1) * later_j

    def sent_bytes(self, epochs: float, *, delivered: bool = False) -> float:
        """Bytes that nodes send each other in so many epochs."""
        first = self.epoch if delivered else self.first_epoch
        return first.sent_bytes + (epochs - 1) * self.epoch.sent_bytes

    def mean_iteration(self, epochs: int) -> tuple[float, float | None]:
        """Seconds and joules of an iteration in the mean over so many epochs, the first included."""
        if self.first_epoch is self.epoch:
            return self.iteration_s, self.iteration_j
        many = epochs * self.epoch_iterations
        energy_j = self.total_j(epochs)
        return self.total_s(epochs) / many, None if energy_j is None else energy_j / many


def added(names: list[str], parts: list[tuple[dict[str, NodePrice], float]]) -> dict[str, NodePrice]:
    """Prices of nodes added up, each as often as it says."""
    total = {name: NodePrice() for name in names}
    for nodes, often in parts:
        for name, price in nodes.items():
            total[name].add(price, often)
    return total
