"""The price of a plan: one evaluator for the plans of every strategy.

It plays one iteration of each phase on the event clock and adds up time, energy, traffic and memory; ``cost.sync`` says
what an iteration and an epoch are for each kind of ``sync``. An evaluator is made once for a profile and a cluster;
strategies then price thousands of phases with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.delivery import keeps_samples, kept_bytes, waiting_bytes
from palmette.cost.kept_outputs import keeps_outputs, kept_output_bytes
from palmette.cost.memory import peak_bytes
from palmette.cost.operations import samples_by_instance
from palmette.cost.optimizer import OptimizerCost, known_optimizer
from palmette.cost.prices import EpochPrice, NodePrice, Price
from palmette.cost.simulate import PhaseSimulator, timed_steps
from palmette.cost.spending import carbon_g, money
from palmette.cost.steps import Iteration
from palmette.cost.sync import epoch
from palmette.cost.sync.registry import SYNC_COSTS
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange
from palmette.spec.goal import Spending
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile

__all__ = ["Evaluator", "NodePrice", "Price"]


class Evaluator(PhaseSimulator):
    """Prices phases of plans for one profile, one cluster and one optimizer.

    With ``moment_s``, an iteration begins at that moment of the traces that links have.

    Raises:
        InputError: there is no such optimizer.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        optimizer: str | OptimizerCost = "sgd",
        exchange: Exchange = PLAIN_EXCHANGE,
        moment_s: float | None = None,
    ) -> None:
        super().__init__(profile, cluster, known_optimizer(optimizer), exchange, moment_s)
        self._knows_more = cluster.currency is not None or any(
            cluster.carbon_of(name) is not None for name in cluster.nodes
        )

    def price(self, phase: Phase) -> Price:
        """The price of a phase that ``check`` finds nothing wrong with."""
        return SYNC_COSTS[phase.executed_sync].price(self, phase)

    def peak_bytes(self, phase: Phase, samples: Sequence[int] | None = None) -> dict[str, float]:
        """The memory that each node needs at most; ``samples`` are those of each instance, if known already.

        Samples that a node keeps count where it has no storage for them; outputs that it keeps always.
        """
        sizes = self.sizes(phase.pruning)
        peaks = peak_bytes(phase, sizes, samples or samples_by_instance(phase), self.optimizer)
        reserved = {name: self.cluster.nodes[name].reserved_bytes for name in peaks}
        kept = (self.kept_bytes(phase, in_storage=False), self.kept_output_bytes(phase))
        for held in (*kept, waiting_bytes(phase, sizes), reserved):
            for node, size_bytes in held.items():
                peaks[node] = peaks.get(node, 0.0) + size_bytes
        return peaks

    def kept_bytes(self, phase: Phase, *, in_storage: bool) -> dict[str, float]:
        """Other nodes' samples that nodes keep in their storage, or, those that have none, in memory."""
        if not keeps_samples(phase) and not phase.upload:
            return {}
        nodes, kept = self.cluster.nodes, kept_bytes(phase, self.cluster, self.sizes(phase.pruning))
        return {name: size for name, size in kept.items() if (nodes[name].storage_bytes is not None) == in_storage}

    def kept_output_bytes(self, phase: Phase) -> dict[str, float]:
        """Outputs that nodes keep in memory at both ends of their channels."""
        return kept_output_bytes(phase, self.cluster, self.sizes(phase.pruning)) if keeps_outputs(phase) else {}

    def epoch_s(self, phase: Phase, steps: Sequence[int]) -> float:
        """Seconds of an epoch of federated averaging in which each tree takes so many steps."""
        return epoch.epoch_s(self, phase, steps)

    def transfer_price(self, phase: Phase, made: Iteration) -> Spending:
        """What operations between the nodes of a phase take, all of which take part from end to end."""
        played = self.play(phase, made)
        nodes = self.node_prices(phase, phase.nodes(), timed_steps(made, played))
        return self.spending(nodes, played.total_s)

    def spending(self, nodes: dict[str, NodePrice], time_s: float) -> Spending:
        """What nodes spend that take part for ``time_s``."""
        energy_j = self.energy_j(nodes, time_s)
        if not self._knows_more:
            return Spending(time_s, energy_j)
        parts = {name: self.node_energy_j(name, part, time_s) for name, part in nodes.items()}
        return Spending(time_s, energy_j, money(self.cluster, nodes, time_s), carbon_g(self.cluster, parts))

    def total(self, price: Price, epochs: float, *, delivered: bool = False) -> Spending:
        """What so many epochs take; ``delivered``: the samples that nodes keep are there from the beginning."""
        time_s, energy_j = price.total_s(epochs, delivered=delivered), price.total_j(epochs, delivered=delivered)
        if not self._knows_more:
            return Spending(time_s, energy_j)
        first = price.epoch if delivered else price.first_epoch
        spent = self._epoch(first).plus(self._epoch(price.epoch).times(epochs - 1))
        return spent._replace(time_s=time_s, energy_j=energy_j)

    def mean_iteration(self, price: Price, epochs: int) -> Spending:
        """What an iteration takes in the mean over so many epochs, the first included."""
        time_s, energy_j = price.mean_iteration(epochs)
        if not self._knows_more:
            return Spending(time_s, energy_j)
        if price.first_epoch is price.epoch:
            return self.spending(price.nodes, price.iteration_s)
        spent = self.total(price, epochs).times(1 / (epochs * price.epoch_iterations))
        return spent._replace(time_s=time_s, energy_j=energy_j)

    def mean_epoch(self, price: Price, epochs: int) -> Spending:
        """What an epoch takes in the mean over so many, the first included."""
        return self.total(price, epochs).times(1 / epochs)

    def _epoch(self, price: EpochPrice) -> Spending:
        return self.spending(price.nodes, price.time_s)
