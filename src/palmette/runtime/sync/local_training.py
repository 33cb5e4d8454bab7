"""The worker's side of ``epoch`` and ``every``: trees train apart, and average their weights when a window ends.

Every instance has its own weights and trains on the samples that reach it, with the mean over them, so that a window of
one step equals one step of plain training. At the end of a window the weights and buffers of each layer's replicas are
averaged at the server, weighted by the samples that each has trained on since the last exchange, and all continue from
the average, or from what an outer optimizer makes of it. Counters, such as batch norm's number of batches, are those of
the first replica. Where the phase names a codec, weights travel as coded differences; for secure aggregation, masked.

Under ``epoch``, optimizers begin anew after an exchange, as those of the clients of federated averaging do; under
``every`` each goes on with its own state, as in local SGD and DiLoCo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from palmette.cost.operations import samples_by_instance
from palmette.cost.steps import Kind
from palmette.cost.sync.turns import TurnParts
from palmette.errors import RunError
from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.sync.difference_exchange import DifferenceExchange
from palmette.runtime.sync.norm_exchange import NORM_BYTES, NormExchange, arrived_number
from palmette.runtime.sync.outer import OuterUpdates
from palmette.runtime.sync.turns import FragmentCopies
from palmette.runtime.sync.weight_exchange import Replica, WeightExchange
from palmette.runtime.worker.actions import SyncActions, TrainingActions
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.replica_state import OUTER, marked, marked_for, state_for
from palmette.runtime.worker.setup import Setup, StateDicts
from palmette.runtime.worker.state import (
    LayerPool,
    compute_for,
    initial_exchange_state,
    initial_optimizer_state,
    message_format,
    state_dicts,
)

if TYPE_CHECKING:
    from palmette.runtime.worker.pairwise_masks import PairwiseMasks

EXCHANGE = (Kind.PUSH, Kind.AVERAGE, Kind.PULL)


class LocalWorkerSide:
    """One program for each tree that has an instance or a source here, and one for the exchange."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._pool = setup, LayerPool(setup.layers)
        self._replicas: dict[str, Replica] = {}
        self._outer: OuterUpdates | None = None
        self._exchanging: WeightExchange | None = None

    @property
    def masks(self) -> PairwiseMasks | None:
        """Those of the exchange."""
        return self._exchanging.masks if self._exchanging is not None else None

    def actions(self, number: int, program: Program) -> Actions:
        """Train a tree's instances locally, or exchange weights."""
        setup = self._setup
        if any(operation.what in EXCHANGE for operation in program.operations):
            return self._exchange(program)
        if all(operation.what is Kind.COMBINE for operation in program.operations):
            return FragmentCopies(self._exchange(program), puts=TurnParts(program.phase.roots).puts(number))
        own = {k: self._replica(number, program, k) for k in program.own}
        computes = {k: replica.compute for k, replica in own.items()}
        samples, update = setup.samples(program), LocalUpdate(program, own)
        return TrainingActions(program, computes, samples, message_format(setup), update, store=setup.store)

    def _exchange(self, program: Program) -> WeightExchange:
        """The exchange, which all programs of it have in common."""
        phase = program.phase
        if self._exchanging is not None:
            return self._exchanging
        layers = self._layers(program)
        if phase.outer is not None and phase.meeting_node == self._setup.node:
            begun = marked_for(initial_optimizer_state(self._setup), OUTER)
            self._outer = OuterUpdates(phase.outer, layers, begun)
        if phase.exchange.kind.lossy:
            saved = initial_exchange_state(self._setup)
            self._exchanging = DifferenceExchange(program, self._replicas, layers, self._outer, saved)
        elif phase.secure_aggregation:
            from palmette.runtime.sync.secure_aggregation import SecureAggregation  # imports cryptography

            self._exchanging = SecureAggregation(program, self._replicas, layers, self._outer)
        else:
            self._exchanging = WeightExchange(program, self._replicas, layers, self._outer)
        return self._exchanging

    def _layers(self, program: Program) -> dict[int, nn.Module]:
        """One module per layer that is exchanged here: an instance's, or one with the shapes of what arrives."""
        held = {n: layer for replica in self._replicas.values() for n, layer in replica.compute.layers.items()}
        others = {n: layer for n, layer in self._setup.layers.items() if n not in held}
        setup = self._setup
        return held | Compute(program.phase, setup.node, others, setup.options, setup.device, own=[]).layers

    def _replica(self, tree: int, program: Program, k: int) -> Replica:
        setup, instance = self._setup, program.phase.instances[k]
        layers = self._pool.take(numbers_of([instance.layers]))
        options = replace(setup.options, seed=setup.options.seed + tree)
        compute = compute_for(Compute, setup, program.phase, layers, options, own=[k])
        compute.optimizers.load(state_for(initial_optimizer_state(setup), instance.id))
        replica = self._replicas[instance.id] = Replica(compute, program.phase.sync_kind.keeps_optimizers)
        compute.begin = replica.begin
        return replica

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """Each layer from the first replica here that holds it, the optimizer state of all, and what they left out.

        Where only some trees take part in a round, layers are those of the server, as others may be behind, and
        optimizers begin anew in each round. Weights that are masked when they are exchanged leave no other way.

        Raises:
            RunError: they were asked for before that.
        """
        if self.masks is not None and any(replica.training for replica in self._replicas.values()):
            raise RunError("weights were requested before they were averaged; secure aggregation does not tell them")
        outer = {} if self._outer is None else marked(self._outer.state(), OUTER)
        if self._exchanging is not None:
            outer |= self._exchanging.state()
            if self._exchanging.leaves_some_behind:
                return self._exchanging.weights(layers), outer
        return self._replica_states(layers, outer)

    def _replica_states(self, layers: Sequence[int], optimizer: dict[str, Tensor]) -> StateDicts:
        weights: dict[str, Tensor] = {}
        asked = set(layers)
        for name, replica in self._replicas.items():
            first = [number for number in replica.compute.layers if number in asked]
            asked -= set(first)
            found, own = state_dicts(replica.compute, first)
            _, others = state_dicts(replica.compute, [n for n in replica.compute.layers if n not in first])
            weights, optimizer = weights | found, optimizer | own | marked(others, name)
        return weights, optimizer

    def last_states(self, _finished: int) -> dict[int, StateDicts]:
        """None: the last checkpoint counts."""
        return {}


class LocalUpdate(SyncActions):
    """Each instance updates its own weights; in a cut tree that clips gradients, their norm is exchanged before."""

    def __init__(self, program: Program, replicas: dict[int, Replica]) -> None:
        self._phase, self._replicas = program.phase, replicas
        self._many = samples_by_instance(program.phase)
        self._norms = NormExchange(program)

    def call(self, operation: ProgramOperation, values: Values) -> float | None:
        """Find the norm of the tree's gradients, or update.

        That is with the mean over the instance's own samples: its root has divided by those of the whole tree.
        """
        if operation.what is Kind.NORM:
            return self._norms.norm(self._squares(), operation, values)
        k = operation.instance
        replica = self._replicas[k]
        if self._many[k] != self._phase.batch:
            replica.compute.gradients.scale(k, self._phase.batch / self._many[k])
        replica.compute.optimizers.update(k, self._norms.found(operation, values))
        replica.samples += self._many[k]
        return None

    def _squares(self) -> float:
        """The sum of the squares of the gradients of all instances here."""
        return sum(replica.compute.optimizers.own_squares(k) for k, replica in self._replicas.items())

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """A part of the norm's square, or the norm."""
        return self._norms.message(self._squares(), operation, values)

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size of such a number."""
        return NORM_BYTES

    def arrived(self, operation: ProgramOperation, message: Tensor) -> float:
        """Such a number."""
        return arrived_number(message)
