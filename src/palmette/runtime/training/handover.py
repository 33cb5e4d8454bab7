"""A change of phase: the model is gathered, made smaller, and sent to the nodes that train it next.

Layers travel over the transport and the testbed of the run like all messages, so that their time and energy are
measured and traced; the next segment continues with what arrived. The smaller model is made on the node that gathers
the layers (the ``giver``): this process computes it, and the time counts as that node's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from palmette.compress.distillation import Distillation, distill
from palmette.compress.kept_indices import carried as carried_over
from palmette.compress.networks import prune_network
from palmette.cost.handover import (
    ModelTransfer,
    Move,
    changes_model,
    compressing_s,
    copies_per_weight,
    model_transfer,
    transfer_phase,
    transfer_steps,
)
from palmette.runtime.data.batches import shards
from palmette.runtime.data.shards import owners
from palmette.runtime.engines.crew import one_from_each
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.program import compile_programs, numbers_of
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.sync.base import gathered
from palmette.runtime.sync.registry import RELAY
from palmette.runtime.sync.relay import moved_layers
from palmette.runtime.training.job import Job
from palmette.runtime.training.launch import SegmentState, WorkerTask, launched
from palmette.runtime.training.log import TrainingLog
from palmette.runtime.worker.commands import Execute, IterationDone
from palmette.runtime.worker.cpu_queue import sleep_until
from palmette.runtime.worker.replica_state import handed_over
from palmette.spec.plan import Phase
from palmette.zoo.capture import load_state
from palmette.zoo.models import Network

Logs = Callable[[Phase, Sequence[PhasePart]], TrainingLog]


class Handover:
    """The change from one phase to the next. ``logs`` opens a log for each step of it."""

    def __init__(self, job: Job, before: Phase, after: Phase, logs: Logs) -> None:
        self._job, self._before, self._after, self._logs = job, before, after, logs
        self._found: ModelTransfer = model_transfer(before, after)
        self._times = copies_per_weight(before, after, job.evaluator.optimizer)

    def made(self, state: SegmentState) -> SegmentState:
        """Execute it; returns the state with which the next segment continues.

        Raises:
            RunError: a worker is lost.
        """
        kept = handed_over(state.optimizer, outer=self._after.outer is not None)
        state = self._moved(SegmentState(state.network, kept), self._before, self._found.gather)
        if changes_model(self._before, self._after):
            state = self._compressed(state)
        return self._moved(state, self._after, self._found.deliver)

    def _compressed(self, state: SegmentState) -> SegmentState:
        job, giver = self._job, self._found.giver
        began_s = time.monotonic()
        network, pruned = prune_network(state.network, self._after.pruning, origin=job.origin)
        kept = carried_over(state.optimizer, pruned.places)
        if self._after.compress == "distill":
            kept = {}
            self._distill(network, state.network)
        sleep_until(began_s + compressing_s(self._before, self._after, job.evaluator) * self._stretched)
        phase = transfer_phase(self._after, giver, [giver])
        done = OperationRecord(0, "update", 0, None, began_s, time.monotonic(), 0)
        log = self._logs(phase, ())
        log.trace_operations(0, phase, {giver: [done]})
        log.pause()
        return SegmentState(network, kept)

    @property
    def _stretched(self) -> float:
        """The dilation of the giver's computing; 0 where nothing is emulated."""
        return self._job.testbed.dilation if self._job.testbed.emulates else 0.0

    def _distill(self, student: Network, teacher: Network) -> None:
        """Distill the larger network into the smaller one, on the giver's own samples."""
        job, giver, cluster = self._job, self._found.giver, self._job.evaluator.cluster
        own = cluster.nodes[giver].source
        assert own is not None, "checked before a run: a node that distills has data"
        data = job.data if own.data is None else job.own_data[own.data]
        shares = owners(giver, cluster)
        indices = shards(len(data.train), list(shares.values()), job.options.seed)[list(shares).index(giver)]
        how = Distillation(batch=self._before.batch, seed=job.options.seed)
        distill(student, teacher, data.train, indices, how, frozen=job.options.freeze)

    def _moved(self, state: SegmentState, like: Phase, moves: Sequence[Move]) -> SegmentState:
        """Send layers from node to node; returns the state with the layers as they arrived."""
        if not moves:
            return state
        ends = [end for move in moves for end in (move.sender, move.to)]
        phase = transfer_phase(like, self._found.giver, ends)
        sizes = self._job.evaluator.sizes(like.pruning)
        graph = transfer_steps(moves, phase, sizes, self._times)
        part = PhasePart(
            phase, graph, {node: each for node, each in compile_programs(phase, graph).items() if each.operations}
        )
        with launched(self._job, state, phase, [part], WorkerTask(RELAY, moved_layers)) as crew:
            log = self._logs(phase, [part])
            at = log.position.iteration
            for node in part.programs:
                crew.send(node, Execute(0, at, at))
            done = one_from_each(crew, part.programs, IterationDone)
            log.trace_operations(0, phase, {node: event.records for node, event in done.items()})
            log.pause()
            arrived: dict[str, list[int]] = {}
            for move in moves:
                arrived.setdefault(move.to, []).extend(numbers_of(move.layers))
            weights, optimizer = gathered(crew, arrived)
        known = [layer for layer in state.network.layers if set(layer.state_names) <= set(weights)]
        load_state(known, weights)
        return SegmentState(state.network, {**state.optimizer, **optimizer})
