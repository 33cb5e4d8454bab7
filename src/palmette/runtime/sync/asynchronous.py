"""``async``: a parameter server, and trees that pull weights and push gradients, each at its own pace.

    tree 0   ▐step▐step▐step▐step▐step▐step▐
    tree 1   ▐   step   ▐   step   ▐   step   ▐

A step of a tree uses one snapshot of the server's weights for all its instances, including those on the server's own
node. Buffers, such as those of batch norm, are sent with the gradients; the server keeps the last that arrived.

    server   snapshot ──▶ pull …               … push ──▶ update
    worker                └─▶ forward ▶ backward ─┘

An iteration is one step of one tree; iterations are numbered as they complete. All dispatched steps are waited for at
the end of an epoch, for a checkpoint, and when the run is to stop; then nothing is in progress. The order in which
steps reach the server depends on timing, and so do the weights: a run that is resumed or repeated trains as well, but
not to the same weights, unless there is only one tree.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from palmette.cost.evaluate import Evaluator
from palmette.cost.sizes import Run
from palmette.runtime.data.epoch_length import EpochData, worker_steps
from palmette.runtime.data.streams import shortest_stream, tree_limits
from palmette.runtime.engines.crew import LISTEN_S
from palmette.runtime.program import Program, ProgramOperation, numbers_of
from palmette.runtime.sync.base import (
    MeasuredTimes,
    PhaseContext,
    Stopping,
    StopTimeout,
    SyncMethod,
    gathered,
)
from palmette.runtime.sync.dilation import DilationControl
from palmette.runtime.sync.dispatch import StepDispatcher, TreeStep
from palmette.runtime.worker.actions import SyncActions, TrainingActions
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.messages import buffers_of, load_into, pack, packed_bytes, state_of, unpack, weights_of
from palmette.runtime.worker.parameter_server import ByLayer, LayerTensors, ParameterServer, Snapshots
from palmette.runtime.worker.setup import Setup, StateDicts
from palmette.runtime.worker.state import C, LayerPool, compute_for, initial_optimizer_state, message_format
from palmette.runtime.worker.weights import trainable_layers
from palmette.spec.plan import Phase
from palmette.zoo.capture.bundle import Bundle

# How long a stop waits for the steps in progress.
_STOP_S = 5.0
# New steps are dispatched for this long before all are waited for.
_ROUND_S = 60.0


class ServerNodeCompute(Compute):
    """An instance on the server's node: computes with the snapshot of its step, not with the current weights."""

    snapshots: Snapshots

    def forward(
        self, k: int, inputs: Sequence[Bundle], labels: Sequence[Tensor], iteration: int, blocks: Sequence[Run] = ()
    ) -> Bundle:
        """The output of an instance; keeps what backward needs."""
        load_into(state_of(self.layers.values()), _flat(self.snapshots.at(iteration), self.layers))
        return super().forward(k, inputs, labels, iteration, blocks)


@dataclass(frozen=True)
class PushedUpdate:
    """What an instance pushes to the server: gradients and buffers by layer."""

    gradients: ByLayer
    buffers: ByLayer

    def tensors(self) -> list[Tensor]:
        """Gradients, then buffers."""
        return [tensor for each in (self.gradients, self.buffers) for parts in each.values() for tensor in parts]


def pushed_by(compute: Compute, k: int, numbers: Sequence[int]) -> PushedUpdate:
    """What an instance pushes after its backward pass."""
    known = trainable_layers(compute.layers, [(number, number) for number in numbers])
    gradients = {n: compute.gradients.of(k, n) for n in known}
    return PushedUpdate(gradients, {n: buffers_of(compute.layers[n]) for n in numbers})


class WorkerActions(SyncActions):
    """A worker other than the server: pulls weights before forward, pushes gradients after backward."""

    def __init__(self, program: Program, computes: Mapping[int, Compute]) -> None:
        self._phase, self._computes = program.phase, computes

    def call(self, operation: ProgramOperation, values: Values) -> None:
        """Never called: only the server averages and updates."""
        raise AssertionError(f"{operation.what.value} belongs to the server")

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """Gradients, then buffers."""
        k = operation.instance
        return pack(pushed_by(self._computes[k], k, numbers_of(operation.layers)).tensors())

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of an instance's weights and buffers."""
        return packed_bytes(self._state(operation))

    def arrived(self, operation: ProgramOperation, message: Tensor) -> None:
        """Load the pulled weights."""
        state = self._state(operation)
        load_into(state, unpack(message, state))

    def _state(self, operation: ProgramOperation) -> list[Tensor]:
        return state_of(self._computes[operation.instance].layers.values())


class ServerActions(SyncActions):
    """The server's side of a tree's steps."""

    def __init__(
        self, program: Program, computes: Mapping[int, Compute], server: ParameterServer, snapshots: Snapshots
    ) -> None:
        self._computes, self._server, self._snapshots = computes, server, snapshots
        self._phase = program.phase
        self._layers = server.compute.layers
        self._backwards = {o.number: o.instance for o in program.operations if o.op == "backward"}

    def call(self, operation: ProgramOperation, values: Values) -> None:
        """Sum the gradients of the tree's instances, in the plan's order, and update."""
        gradients: dict[int, list[Tensor]] = {}
        buffers: dict[int, list[Tensor]] = {}
        for need in operation.after:
            given = self._own(self._backwards[need]) if need in self._backwards else values[need]
            for number, parts in given.gradients.items():
                before = gradients.get(number)
                gradients[number] = parts if before is None else [a + b for a, b in zip(before, parts, strict=True)]
            buffers |= given.buffers
        self._server.update(gradients, buffers)

    def _own(self, k: int) -> PushedUpdate:
        return pushed_by(self._computes[k], k, numbers_of([self._phase.instances[k].layers]))

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The weights and buffers that an instance pulls."""
        return pack(_flat(self._snapshots.at(iteration), numbers_of(operation.layers)))

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of an instance's gradients and buffers."""
        return packed_bytes(self._like(operation).tensors())

    def arrived(self, operation: ProgramOperation, message: Tensor) -> PushedUpdate:
        """The received gradients and buffers by layer."""
        like = self._like(operation)
        parts = iter(unpack(message, like.tensors()))
        return PushedUpdate(
            *({n: [next(parts) for _ in each[n]] for n in each} for each in (like.gradients, like.buffers))
        )

    def _like(self, operation: ProgramOperation) -> PushedUpdate:
        """Tensors shaped like what an instance pushes: gradients have the shapes of weights."""
        gradients = {n: weights_of(self._layers[n]) for n in trainable_layers(self._layers, operation.layers)}
        return PushedUpdate(gradients, {n: buffers_of(self._layers[n]) for n in numbers_of(operation.layers)})


class AsyncWorkerSide:
    """One program for each tree with an instance or a source here; on the server's node, for every tree."""

    masks = None

    def __init__(self, setup: Setup) -> None:
        self._setup, self._pool = setup, LayerPool(setup.layers)
        self._server: ParameterServer | None = None

    def actions(self, number: int, program: Program) -> Actions:
        """Take steps with the server's weights, or be the server."""
        setup = self._setup
        if program.phase.meeting_node == setup.node:
            return self._serving(number, program)
        computes = {k: self._made(Compute, number, program, k) for k in program.own}
        samples, exchange = setup.samples(program), WorkerActions(program, computes)
        return TrainingActions(program, computes, samples, message_format(setup), exchange, store=setup.store)

    def _serving(self, number: int, program: Program) -> Actions:
        server = self._parameter_server(program.phase.depth)
        snapshots = Snapshots(server)
        computes = {k: self._made(ServerNodeCompute, number, program, k) for k in program.own}
        for compute in computes.values():
            compute.snapshots = snapshots
        serving = ServerActions(program, computes, server, snapshots)
        samples, wire = self._setup.samples(program), message_format(self._setup)
        return TrainingActions(program, computes, samples, wire, serving, store=self._setup.store)

    def _parameter_server(self, depth: int) -> ParameterServer:
        if self._server is None:
            setup = self._setup
            layers = self._pool.take(range(1, depth + 1))
            self._server = ParameterServer(setup.node, layers, setup.options, setup.device)
            self._server.compute.optimizers.load(initial_optimizer_state(setup))
        return self._server

    def _made(self, kind: type[C], tree: int, program: Program, k: int) -> C:
        setup = self._setup
        layers = self._pool.take(numbers_of([program.phase.instances[k].layers]))
        options = replace(setup.options, seed=setup.options.seed + tree)
        return compute_for(kind, setup, program.phase, layers, options, own=[k])

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """The state of the server."""
        assert self._server is not None, "only the server has the state"
        return self._server.state(layers)

    def last_states(self, _finished: int) -> dict[int, StateDicts]:
        """None: the last checkpoint counts."""
        return {}


def _flat(state: LayerTensors, numbers: Iterable[int]) -> list[Tensor]:
    return [tensor for number in numbers for tensor in state[number]]


class AsyncEngineSide:
    """Steps of trees against a parameter server."""

    aborted = False

    def __init__(self, context: PhaseContext) -> None:
        self._context, self._dispatcher = context, StepDispatcher(context.crew, context.parts)
        self._taken = list(context.tree_steps) or [0] * len(context.parts)
        self._limits = tree_limits(context.phase, context.evaluator, context.data, context.log.first_iteration)
        self._steps_s: list[list[float]] = [[] for _ in context.parts]
        self._earlier_s: list[list[float]] = []  # those before the dilation was increased
        self._dilation = DilationControl(context.crew, context.testbed, context.log)

    @property
    def tree_steps(self) -> Sequence[int]:
        """The steps that each tree has taken."""
        return tuple(self._taken)

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Dispatch steps up to ``end``, for a limited time, and wait for all of them."""
        until_s = time.monotonic() + _ROUND_S
        given = at

        def give(tree: int) -> None:
            nonlocal given
            if given < end and self._can_go_on(tree) and not stopping() and time.monotonic() < until_s:
                number = self._context.log.first_iteration + self._taken[tree]
                self._dispatcher.give(tree, number, number)
                given += 1

        for tree in range(len(self._taken)):
            give(tree)
        long_enough = StopTimeout(stopping, _STOP_S)
        while at < given:
            step = self._dispatcher.next(LISTEN_S)
            if long_enough():
                self.aborted = True
                return at
            if step is not None:
                self._finish(step)
                give(step.part)
                self._note(at, step)
                at += 1
        self._context.log.pause()
        if self._dilation.adjusted(at):
            self._earlier_s, self._steps_s = self._steps_s, [[] for _ in self._steps_s]
        return at

    def _can_go_on(self, tree: int) -> bool:
        """Whether a tree has samples for another step: those of a stream are used once."""
        limit = self._limits[tree]
        return limit is None or self._taken[tree] < limit

    def _finish(self, step: TreeStep) -> None:
        self._taken[step.part] += 1
        took_s = time.monotonic() - self._dispatcher.given_s[step.part]
        self._steps_s[step.part].append(took_s / self._context.testbed.dilation)

    def _note(self, at: int, step: TreeStep) -> None:
        part, log = self._context.parts[step.part], self._context.log
        span_s = log.trace_operations(at, part.phase, step.records)
        self._dilation.note(step.records)
        log.iteration(at, step.loss, part.phase.batch, span_s, tree=part.root)

    def state(self) -> StateDicts:
        """The state of the server."""
        phase = self._context.phase
        return gathered(self._context.crew, {phase.meeting_node: range(1, phase.depth + 1)})

    def recovered(self, after: int, gone: str | None) -> StateDicts | None:
        """None: steps are always in progress; the last checkpoint remains."""
        return None

    def measured(self) -> MeasuredTimes:
        """The mean time of an iteration while all trees are busy: 1 / Σ of their rates, each by its mean step.

        A step lasts from its dispatch until all its nodes have reported it done. The first, which includes warm-up, is
        left out if there are others; the mean, since steps of unlike trees meet on the links only now and then.
        """
        taken = self._steps_s if any(self._steps_s) else self._earlier_s
        means = [statistics.fmean(steps[1:] or steps) for steps in taken if steps]
        return MeasuredTimes(1 / sum(1 / seconds for seconds in means) if means else None)


def _epoch_iterations(phase: Phase, evaluator: Evaluator, data: EpochData) -> int:
    """Steps for all samples that an epoch uses; of streams, whole batches alone."""
    steps, stream = worker_steps(phase, evaluator, data), shortest_stream(phase, evaluator, data, 0)
    return steps if stream is None else max(1, min(steps, stream.iterations))


ASYNC = SyncMethod(epoch_iterations=_epoch_iterations, worker_side=AsyncWorkerSide, engine_side=AsyncEngineSide)
