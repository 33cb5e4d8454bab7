"""The price of a plan: one evaluator for the plans of every strategy.

It plays one iteration of each phase on the event clock and adds up time, energy, traffic and memory; ``cost.sync`` says
what an iteration and an epoch are for each kind of ``sync``. An evaluator is made once for a profile and a cluster;
strategies then price thousands of phases with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.delivery import keeps_samples, kept_bytes, waiting_bytes
from palmette.cost.memory import peak_bytes
from palmette.cost.operations import samples_by_instance
from palmette.cost.optimizer import OptimizerCost, known_optimizer
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

    def __init__(self, profile: Profile, cluster: Cluster, optimizer: str | OptimizerCost = "sgd") -> None:
        super().__init__(profile, cluster, known_optimizer(optimizer))

    def price(self, phase: Phase) -> Price:
        """The price of a phase that ``check`` finds nothing wrong with."""
        return SYNC_COSTS[phase.sync].price(self, phase)

    def peak_bytes(self, phase: Phase, samples: Sequence[int] | None = None) -> dict[str, float]:
        """The memory that each node needs at most; ``samples`` are those of each instance, if known already.

        Samples that a node keeps count where it has no storage for them.
        """
        sizes = self.sizes(phase.pruning)
        peaks = peak_bytes(phase, sizes, samples or samples_by_instance(phase), self.optimizer)
        for held in (self.kept_bytes(phase, in_storage=False), waiting_bytes(phase, sizes)):
            for node, size_bytes in held.items():
                peaks[node] = peaks.get(node, 0.0) + size_bytes
        return peaks

    def kept_bytes(self, phase: Phase, *, in_storage: bool) -> dict[str, float]:
        """Other nodes' samples that nodes keep in their storage, or, those that have none, in memory."""
        if not keeps_samples(phase) and not phase.upload:
            return {}
        nodes, kept = self.cluster.nodes, kept_bytes(phase, self.cluster, self.sizes(phase.pruning))
        return {name: size for name, size in kept.items() if (nodes[name].storage_bytes is not None) == in_storage}

    def epoch_s(self, phase: Phase, steps: Sequence[int]) -> float:
        """Seconds of an epoch of federated averaging in which each tree takes so many steps."""
        return epoch.epoch_s(self, phase, steps)

    def transfer_price(self, phase: Phase, made: Iteration) -> tuple[float, float | None]:
        """Seconds and joules of operations between the nodes of a phase, all of which take part from end to end."""
        played = self.play(phase, made)
        nodes = self.node_prices(phase, phase.nodes(), timed_steps(made, played))
        return played.total_s, self.energy_j(nodes, played.total_s)
