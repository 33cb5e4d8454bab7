"""``step``: gradients of replicated layers are averaged in every iteration.

Replicas on one node share their weights. Every root has divided its loss by the batch size of the whole phase, so that
the average over replicas is the sum of their gradients: first on each node, then over the nodes, in the plan's order.

Where gradients accumulate, they do so on each node, and averages and updates are a part of their own (``cost``), which
the workers execute after the last of n iterations; and before their state is read, so that what has been accumulated is
then the same on all nodes.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from palmette.compress.error_feedback import is_of_exchange
from palmette.cost.delivery import sending_sources
from palmette.cost.steps import GRADIENT_CALLS, Kind, Piece
from palmette.runtime.data.epoch_length import common_steps
from palmette.runtime.engines.crew import Stopped, one_from_each
from palmette.runtime.program import Program, ProgramOperation
from palmette.runtime.sync.base import (
    MeasuredTimes,
    PhaseContext,
    Stopping,
    StopTimeout,
    SyncMethod,
    gathered,
    holders,
    joined,
    typical_s,
)
from palmette.runtime.sync.dilation import DilationControl
from palmette.runtime.sync.norm_exchange import NORM_BYTES, NORM_MESSAGES, NormExchange, arrived_number
from palmette.runtime.sync.update_schedule import UPDATE, UpdateSchedule
from palmette.runtime.worker.accumulation import AccumulatingCompute, SummingCompute
from palmette.runtime.worker.actions import SyncActions, TrainingActions
from palmette.runtime.worker.commands import Execute, GetState, IterationDone, StateReply
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.deliveries import NO_DELIVERIES
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.gradient_coding import ByLayer, GradientCoding
from palmette.runtime.worker.gradients import flat, summed
from palmette.runtime.worker.layer_pieces import LayerPieces
from palmette.runtime.worker.messages import pack
from palmette.runtime.worker.rollback import RollbackCopy, State
from palmette.runtime.worker.setup import Setup, StateDicts
from palmette.runtime.worker.state import (
    compute_for,
    initial_exchange_state,
    initial_optimizer_state,
    message_format,
    state_dicts,
)
from palmette.spec.plan import Phase

# A single worker gets several iterations at a time, as many as fit into this.
_BATCHED_S = 0.25
# The dilation is not increased if fewer iterations than this are left to measure.
_FEWEST = 3
# How long the remaining workers have to send their state when one is lost.
_RESCUE_S = 5.0
# How long a stop waits for the current iteration: where workers can roll back, and where they cannot.
_KEPT_S, _NOT_KEPT_S = 2.0, 30.0


class StepWorkerSide:
    """One set of weights and one program."""

    masks = None

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._compute: Compute | None = None
        self._coding: GradientCoding | None = None
        self._rollback: RollbackCopy | None = None

    def actions(self, number: int, program: Program) -> Actions:
        """Train, and average gradients with the other workers; the second part, if there is one, is updates alone."""
        setup = self._setup
        if self._compute is None or self._coding is None:
            self._compute, self._coding = self._prepared(program)
        averaging = GradientAveraging(program, self._compute, self._coding)
        if number == UPDATE:
            return UpdateApart(averaging, setup.options.span.first)
        computes = dict.fromkeys(program.own, self._compute)
        samples, wire = setup.samples(program), message_format(setup)
        return TrainingActions(program, computes, samples, wire, averaging, store=setup.store)

    def _prepared(self, program: Program) -> tuple[Compute, GradientCoding]:
        """The node's weights, as it begins with them, and how their gradients travel."""
        setup = self._setup
        kind = AccumulatingCompute if len(setup.programs) > UPDATE else SummingCompute
        made = compute_for(kind, setup, program.phase, setup.layers, setup.options)
        made.optimizers.load(initial_optimizer_state(setup))
        coding = GradientCoding(program.phase, setup.node, made.held, made.dtype)
        coding.load(initial_exchange_state(setup))
        if setup.rollback:
            self._rollback = RollbackCopy(lambda: self._current(setup.layers))
            made.begin = self._rollback.begin
        return made, coding

    def _current(self, layers: Iterable[int]) -> StateDicts:
        """The state of some layers, and all that this node has left out of exchanges."""
        assert self._compute is not None, "a worker has a program"
        assert self._coding is not None, "a worker has a program"
        weights, optimizer = state_dicts(self._compute, layers)
        return weights, optimizer | self._coding.state()

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """The state of the node's weights, current or rolled back."""
        if after is None or self._rollback is None:
            return self._current(layers)
        return self._of(layers, self._rollback.after(after))

    def _of(self, layers: Sequence[int], state: State) -> StateDicts:
        """The part of a state that belongs to some layers, and all that this node has left out of exchanges."""
        assert self._compute is not None, "a worker has a program"
        weights, optimizer = state
        own = {name for number in layers for name in self._compute.layers[number].state_dict()}
        return (
            {name: value for name, value in weights.items() if name in own},
            {key: value for key, value in optimizer.items() if key.rpartition("/")[0] in own or is_of_exchange(key)},
        )

    def last_states(self, finished: int) -> dict[int, StateDicts]:
        """Those of the layers that this node is the first to hold; none where gradients accumulate on each node."""
        program = self._setup.programs[0]
        if self._rollback is None or program is None or len(self._setup.programs) > UPDATE:
            return {}
        layers = holders(program.phase).get(self._setup.node, [])
        states = self._rollback.last_states(finished)
        return {iteration: self._of(layers, state) for iteration, state in states.items()}


class GradientAveraging(SyncActions):
    """A node sends its summed gradients to where replicas meet, and gets the average before the update."""

    def __init__(self, program: Program, compute: Compute, coding: GradientCoding) -> None:
        self._compute, self._coding = compute, coding
        self._apart = all(operation.what not in GRADIENT_CALLS for operation in program.operations)
        self.iterations = 1
        """Of how many iterations the gradients are."""
        self._by_number = {(operation.number, operation.op): operation for operation in program.operations}
        self._results = {each.number: each.what for each in program.operations if each.op in ("average", "receive")}
        self._norms = NormExchange(program)
        self._own: ByLayer = {}
        pulls = [each for each in program.operations if (each.what, each.op) == (Kind.PULL, "send")]
        self._pulled = {number for each in pulls for number in self._trained(each)}
        self._messages: dict[tuple[int, Piece | None], Tensor] = {}
        self._sums, self._late = LayerPieces(), LayerPieces()

    def call(self, operation: ProgramOperation, values: Values) -> Any:
        """Average gradients, or update with averages."""
        if operation.what is Kind.AVERAGE:
            return self._average(operation, values)
        if operation.what is Kind.NORM:
            return self._norms.norm(self._squares(operation, values), operation, values)
        self._compute.gradients.put_flat(operation.instance, self._gradients(operation, values))
        for number in self._trained(operation):
            self._own.pop(number, None)
        norm, numbers = self._norms.found(operation, values), self._trained(operation)
        self._compute.optimizers.update(operation.instance, norm, self.iterations, numbers)
        return None

    def _gradients(self, operation: ProgramOperation, values: Values) -> ByLayer:
        """The gradients of an operation's layers, averaged over their replicas; kept until the update."""
        averages = self._averages(operation, values)
        for number in self._trained(operation):
            if number not in averages and number not in self._own:
                self._own[number] = self._added(number)
        return {n: averages[n] if n in averages else self._own[n] for n in self._trained(operation)}

    def _squares(self, operation: ProgramOperation, values: Values) -> float:
        """The sum of the squares of the gradients of an operation's layers."""
        return self._compute.optimizers.squares(self._gradients(operation, values), self.iterations)

    def _average(self, operation: ProgramOperation, values: Values) -> ByLayer:
        """The sum of the nodes' gradients, in the order in which the plan lists the nodes."""
        numbers = self._trained(operation)
        found: dict[str, ByLayer] = {}
        if self._apart and all(map(self._compute.gradients.has, numbers)):  # no call says so
            found["here"] = self._here(operation)
        for need in operation.after:
            pushed = self._by_number.get((need, "receive"))
            if pushed is not None and pushed.channel is not None:
                found[pushed.channel.sender] = values[need]
            elif "here" not in found:
                found["here"] = self._here(operation)
        totals = {number: summed([each[number] for each in found.values()]) for number in numbers}
        return {number: self._total(number, total, operation.piece) for number, total in totals.items()}

    def _here(self, operation: ProgramOperation) -> ByLayer:
        """The sums of this node's gradients of an operation's layers, or a piece of them."""
        take, piece = self._compute.gradients.take_sum, operation.piece
        return {number: self._sums.take(number, piece, take) for number in self._trained(operation)}

    def _total(self, number: int, gradients: Tensor, piece: Piece | None) -> Tensor:
        """The sum of a layer's gradients as all nodes get it; coded once, so that they get the same."""
        total = self._coding.with_residual(number, gradients) if piece is None else gradients
        if piece is not None and (late := self._late.take_known(number, piece, self._coding.residual)) is not None:
            total = total + late
        if number in self._pulled:
            self._messages[number, piece], total = self._coding.compress(number, total)
        return total

    def _added(self, number: int) -> Tensor:
        """The sum of this node's gradients of a layer, and what it has not sent of earlier ones."""
        return self._coding.with_residual(number, self._compute.gradients.take_sum(number))

    def _averages(self, operation: ProgramOperation, values: Values) -> ByLayer:
        """The averages that an update or a pull comes after, for its own layers."""
        known: dict[int, list[Tensor]] = {}
        for need in sorted(operation.after):  # pieces in their order
            if self._results.get(need) in (Kind.AVERAGE, Kind.PULL):
                for number, value in values[need].items():
                    known.setdefault(number, []).append(value)
        return {number: flat(known[number]) for number in self._trained(operation) if number in known}

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """Gradients to be averaged, or averages to be returned; or a part of the norm of all, or all of it."""
        if operation.what in NORM_MESSAGES:
            squares = self._squares(operation, values) if operation.what is Kind.SQUARES else 0.0
            return self._norms.message(squares, operation, values)
        if operation.what is Kind.PULL:
            return pack(self._messages[number, operation.piece] for number in self._trained(operation))
        if operation.piece is not None:
            return pack(self._sums.take(n, operation.piece, self._added) for n in self._trained(operation))
        return pack(self._coding.compress(number, self._added(number))[0] for number in self._trained(operation))

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of the gradients of an operation's layers, or of a norm."""
        if operation.what in NORM_MESSAGES:
            return NORM_BYTES
        return self._coding.bytes_of(self._trained(operation), operation.piece)

    def arrived(self, operation: ProgramOperation, message: Tensor) -> ByLayer | float:
        """The received gradients by layer, or a norm or its part."""
        if operation.what in NORM_MESSAGES:
            return arrived_number(message)
        return self._coding.extract(self._trained(operation), message, operation.piece)

    def _trained(self, operation: ProgramOperation) -> list[int]:
        return self._compute.held.trained(operation.layers)


class UpdateApart:
    """Averages and updates with the gradients of all iterations since the last; ``first`` is the first iteration."""

    deliveries = NO_DELIVERIES

    def __init__(self, averaging: GradientAveraging, first: int) -> None:
        self._averaging, self._last, self._lock = averaging, first - 1, threading.Lock()

    def _begin(self, iteration: int) -> None:
        """Count the iterations since the last update, before anything needs them."""
        with self._lock:
            if iteration != self._last:
                self._averaging.iterations, self._last = iteration - self._last, iteration

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> Any:
        """Average or update after an iteration."""
        self._begin(iteration)
        return self._averaging.call(operation, values)

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The bytes that a send carries."""
        self._begin(iteration)
        return self._averaging.message(operation, values, iteration)

    def message_bytes(self, operation: ProgramOperation) -> int:
        """The size in bytes of the message that a receive waits for."""
        return self._averaging.message_bytes(operation)

    def arrived(self, operation: ProgramOperation, message: Tensor, iteration: int) -> ByLayer | float:
        """Decode a received message."""
        return self._averaging.arrived(operation, message)

    def close(self) -> None:
        """Nothing to abort."""


class StepEngineSide:
    """``step``: all workers run an iteration and report it done, then the next."""

    tree_steps: Sequence[int] = ()
    aborted = False

    def __init__(self, context: PhaseContext) -> None:
        self._context, (self._part, *apart) = context, context.parts
        self._updates = UpdateSchedule(context, apart[0]) if apart else None
        self._at_once = 1
        self._spans_s: list[float] = []
        self._dilation = DilationControl(context.crew, context.testbed, context.log)

    def advance(self, at: int, end: int, stopping: Stopping) -> int:
        """Run the next iteration; several at once if there is only one worker."""
        nodes, crew, first = self._part.programs, self._context.crew, self._context.log.first_iteration
        last = min(end, at + (self._at_once if len(nodes) == 1 else 1)) - 1
        if self._updates is not None:
            self._updates.begin(at)
        began = time.monotonic()
        until = max(end, self._context.iterations) - 1
        for node in nodes:
            crew.send(node, Execute(0, first + at, first + last, first + until))
        aborted = StopTimeout(stopping, _KEPT_S if self._context.can_roll_back else _NOT_KEPT_S)
        for number in range(at, last + 1):
            try:
                self._note(number, one_from_each(crew, nodes, IterationDone, aborted), aborted)
            except Stopped:
                self.aborted = True
                return number
        taken = last + 1 - at
        self._at_once = max(1, math.floor(taken * _BATCHED_S / max(time.monotonic() - began, 1e-6)))
        if end - last - 1 >= _FEWEST and self._dilation.adjusted(last + 1):
            self._spans_s.clear()
        return last + 1

    def _note(self, at: int, done: Mapping[str, IterationDone], aborted: StopTimeout) -> None:
        phase, log = self._context.phase, self._context.log
        records = {node: event.records for node, event in done.items()}
        began_s = min(event.began_s for event in done.values()) if phase.ahead else None
        took_s = log.trace_operations(at, phase, records, began_s)
        log.pause()
        self._dilation.note(records)
        if self._updates is not None:
            took_s += self._updates.iterated(at, aborted)
        self._spans_s.append(took_s)
        loss = sum(event.loss for event in done.values())
        log.iteration(at, loss, phase.batch, took_s)

    def state(self) -> StateDicts:
        """Each layer from the first node that holds it; gradients that have accumulated are exchanged first."""
        if self._updates is not None:
            self._updates.exchange()
        return gathered(self._context.crew, self._asked(self._context.phase))

    def _asked(self, phase: Phase) -> dict[str, list[int]]:
        """The layers that each node is asked for; where exchanges leave something out, every node is asked."""
        others = phase.nodes() if phase.exchange.kind.lossy else []
        return {**{node: [] for node in others}, **holders(phase)}

    def recovered(self, after: int, gone: str | None) -> StateDicts | None:
        """Each layer from the first remaining node that holds it, if workers can roll back.

        Gradients that only one node has accumulated are lost with it, and so is then the state.
        """
        if self._updates is not None and not self._updates.exchanged_after(after):
            return None
        phase = self._context.phase
        living = [instance for instance in phase.instances if instance.node != gone]
        held = {n for instance in living for n in range(instance.layers[0], instance.layers[1] + 1)}
        if not self._context.can_roll_back or len(held) < phase.depth:
            return None
        layers = self._asked(phase.model_copy(update={"instances": tuple(living)}))
        asked = {node: GetState(tuple(numbers), after) for node, numbers in layers.items() if node != gone}
        answers = self._context.crew.ask(asked, StateReply, _RESCUE_S)
        return joined(answers.values()) if len(answers) == len(asked) else None

    def measured(self) -> MeasuredTimes:
        """The median time of an iteration; the mean of as many as make an update, where that is apart.

        Samples that travel ahead may arrive for several iterations at once, which then follow each other quickly: there
        it is the mean of as many as may be under way.
        """
        many, phase = 1 if self._updates is None else self._updates.every, self._context.phase
        if phase.ahead and sending_sources(phase):
            many *= math.ceil((phase.ahead_iterations + 1) / many)
        ends = range(many, len(self._spans_s) + 1, many)
        spans_s = [statistics.fmean(self._spans_s[end - many : end]) for end in ends]
        return MeasuredTimes(typical_s(spans_s or self._spans_s))


STEP = SyncMethod(epoch_iterations=common_steps, worker_side=StepWorkerSide, engine_side=StepEngineSide)
