"""The price of a plan: one evaluator for the plans of every strategy.

It plays one iteration of each phase on the event clock and adds up time, energy, traffic and memory; ``cost.sync`` says
what an iteration and an epoch are for each kind of ``sync``. An evaluator is made once for a profile and a cluster;
strategies then price thousands of phases with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.memory import Optimizer, known_optimizer, peak_bytes
from palmette.cost.operations import samples_by_instance
from palmette.cost.prices import NodePrice, Price
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.steps import Iteration
from palmette.cost.sync import epoch
from palmette.cost.sync.registry import SYNC_COSTS
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile

__all__ = ["Evaluator", "NodePrice", "Price"]


class Evaluator(PhaseSimulator):
    """Prices phases of plans for one profile, one cluster and one optimizer.

    Raises:
        InputError: there is no such optimizer.
    """

    def __init__(self, profile: Profile, cluster: Cluster, optimizer: Optimizer = "sgd") -> None:
        super().__init__(profile, cluster)
        self.optimizer = known_optimizer(optimizer)

    def price(self, phase: Phase) -> Price:
        """The price of a phase that ``check`` finds nothing wrong with."""
        return SYNC_COSTS[phase.sync].price(self, phase)

    def peak_bytes(self, phase: Phase) -> dict[str, float]:
        """The memory that each node needs at most."""
        return peak_bytes(phase, self.sizes(phase.pruning), samples_by_instance(phase), self.optimizer)

    def epoch_s(self, phase: Phase, steps: Sequence[int]) -> float:
        """Seconds of an epoch of federated averaging in which each tree takes so many steps."""
        return epoch.epoch_s(self, phase, steps)

    def transfer_price(self, phase: Phase, made: Iteration) -> tuple[float, float | None]:
        """Seconds and joules of operations between the nodes of a phase, all of which take part from end to end."""
        played = self.play(phase, made)
        nodes = self.node_prices(phase, phase.nodes(), timed_steps(made, played))
        return played.total_s, self.energy_j(nodes, played.total_s)
