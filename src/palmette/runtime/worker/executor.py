"""Executes a program: the calls of each instance in one thread, every transfer and average in a thread of its own.

Messages that leave one behind the other are sent in one thread.

Transfers of samples, which may be ahead of the iterations, are those of ``sample_transfers``.

An operation starts when those it comes after are done; so transfers overlap computation, and gradients are sent as soon
as they are ready. ``Actions`` defines what operations do; this file only when. The thread of a receive waits for its
next message before anything else, so that receives are posted before the matching sends.

    instance S   forward ─────────────────▶ backward ──────▶ update
    send              └▶ output ▶…                └▶ push ▶…   ▲
    receive                     …▶ gradient ──┘         …▶ pull ┘
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Protocol

from torch import Tensor

from palmette.cost.steps import SAMPLES, Kind
from palmette.runtime.program import Program, ProgramOperation
from palmette.runtime.record.operations import CALLS, MOST_LATE_S, OperationRecord, Span
from palmette.runtime.transports.base import Transport, TransportClosed, timed
from palmette.runtime.worker.cpu_queue import CpuQueue, sleep_until
from palmette.runtime.worker.deliveries import Deliveries
from palmette.runtime.worker.sample_transfers import Delivered, SampleTransfers

Values = Mapping[int, Any]


class Actions(Protocol):
    """What the operations of a program do; ``values`` holds the results of those before them, by number.

    ``deliveries`` are this node's ends of the transfers of samples, by the operation's number.
    """

    deliveries: Deliveries

    def call(self, operation: ProgramOperation, values: Values, iteration: int) -> Any:
        """Execute a forward, backward, average or update."""
        ...

    def message(self, operation: ProgramOperation, values: Values, iteration: int) -> Tensor:
        """The bytes that a send carries."""
        ...

    def message_bytes(self, operation: ProgramOperation) -> int | None:
        """The size in bytes of the message that an operation carries; None if it varies."""
        ...

    def arrived(self, operation: ProgramOperation, message: Tensor, iteration: int) -> Any:
        """Decode a received message."""
        ...

    def close(self) -> None:
        """Abort what is in progress."""
        ...


@dataclass
class IterationResult:
    """An iteration that is done on this node, which began it at ``began_s``."""

    iteration: int
    records: list[OperationRecord]
    values: dict[int, Any]
    began_s: float


@dataclass(frozen=True)
class Pace:
    """The minimum duration of calls: seconds by operation number; a call without one is not padded.

    Of a message that is sent, and of an average, it is that of coding.

    A padded call counts from when it was due to start, which is when those it comes after were due to end: a thread
    that was scheduled late, as happens on a busy machine, catches up, by ``MOST_LATE_S`` at most. A longer delay shows
    in the times of the run.
    """

    seconds: Mapping[int, float] = field(default_factory=dict)


class Executor:
    """Runs one node's program, iteration after iteration."""

    def __init__(
        self,
        program: Program,
        actions: Actions,
        transport: Transport,
        cpu: CpuQueue,
        finished: Callable[[IterationResult | BaseException], None],
    ) -> None:
        self.program, self._actions, self._transport, self._cpu = program, actions, timed(transport), cpu
        self._finished = finished
        self.pace = Pace()
        self._whose = _whose(program)
        self._followed = {each.behind for each in program.operations if each.behind is not None}
        self._after = _after(program)
        self._due_s: dict[int, float] = {}
        self._began_s = 0.0
        instances = program.phase.instances
        calls = [operation for operation in program.operations if operation.op in CALLS]
        serves = program.phase.sync_kind.has_server  # then the parameter server updates, not an instance
        self._shares = {
            o.number: cpu.limit if serves and o.op == "update" else instances[o.instance].cpu_share for o in calls
        }
        self._values: dict[int, Any] = {}
        self._records: list[OperationRecord] = []
        self._iteration = 0
        self._lock = threading.Lock()
        lanes = _lanes(program)
        self._samples = SampleTransfers(
            program, actions.deliveries, self._transport, self._note_delivered, self._finished
        )
        self.samples_until = 0
        self._needs = _needs(lanes)
        self._done = {number: threading.Event() for needs in self._needs.values() for number in needs}
        inline = len(lanes) == 1 and lanes[0][0].channel is None and not self._samples
        self._alone = lanes[0] if inline else None
        self._going = 0
        self._closing = False
        self._starts: list[SimpleQueue[bool]] = []
        self._first = [lane[0] for lane in lanes if lane[0].op in CALLS and not lane[0].after]
        self._queued: dict[int, object] = {}
        if self._alone is None:
            for lane in lanes:
                self._spawn(lane)

    @property
    def inline(self) -> bool:
        """Whether this program needs no threads: ``run`` returns when it is done."""
        return self._alone is not None

    def _spawn(self, lane: list[ProgramOperation]) -> None:
        start: SimpleQueue[bool] = SimpleQueue()
        self._starts.append(start)
        target = self._receive_forever if lane[0].op == "receive" else self._work_forever
        threading.Thread(target=target, args=(lane, start), daemon=True).start()

    def run(self, iteration: int) -> None:
        """Start an iteration; ``finished`` is called when it is done, or with the error that ended it.

        Samples of iterations up to ``samples_until`` may travel ahead, as far ahead as the phase allows.
        """
        self._iteration, self._began_s = iteration, time.monotonic()
        self._values.clear()
        self._due_s.clear()
        self._records = []
        for event in self._done.values():
            event.clear()
        if self._alone is not None:
            for operation in self._alone:
                self._carry_out(operation)
            self._report()
            return
        self._going = len(self._starts) + len(self._samples)
        # Calls that are ready at the start are queued in program order, as on the event clock.
        self._queued = {operation.number: self._cpu.queue() for operation in self._first}
        for start in self._starts:
            start.put(True)
        self._samples.begin(iteration, self._began_s, self.samples_until)

    def close(self) -> None:
        """End the threads; one that waits for a message ends with the process."""
        self._closing = True
        for start in self._starts:
            start.put(False)
        self._samples.close()
        for event in self._done.values():
            event.set()
        self._actions.close()

    def _work_forever(self, lane: list[ProgramOperation], start: SimpleQueue[bool]) -> None:
        try:
            while start.get():
                for operation in lane:
                    for need in self._needs[operation.number]:
                        self._done[need].wait()
                    if self._closing:
                        return
                    self._carry_out(operation)
                self._lane_done()
        except TransportClosed:
            return
        except BaseException as error:  # noqa: BLE001  (passed to whoever waits for the iteration)
            self._finished(error)

    def _receive_forever(self, lane: list[ProgramOperation], start: SimpleQueue[bool]) -> None:
        (operation,) = lane
        assert operation.channel is not None
        try:
            size = self._actions.message_bytes(operation)
            while True:
                posted_s = time.monotonic()
                message, due_s = self._transport.receive_due(operation.channel, size)
                arrived_s = time.monotonic()
                if not start.get():
                    return
                value = self._actions.arrived(operation, message, self._iteration)
                self._note(operation, value, (posted_s, arrived_s, due_s), message.numel())
                self._lane_done()
        except TransportClosed:
            return
        except BaseException as error:  # noqa: BLE001
            self._finished(error)

    def _carry_out(self, operation: ProgramOperation) -> None:
        if operation.op == "send":
            self._send(operation)
        elif operation.op == "average":
            self._average(operation)
        else:
            self._call(operation)

    def _average(self, operation: ProgramOperation) -> None:
        """Average; only coding is padded, since a profile has no time for the rest."""
        start, used = time.monotonic(), time.thread_time()
        value = self._actions.call(operation, self._values, self._iteration)
        due_s = self._coded_by(operation, start, time.thread_time() - used)
        self._note(operation, value, (start, time.monotonic(), due_s))

    def _call(self, operation: ProgramOperation) -> None:
        number = operation.number
        with self._cpu.share(self._shares[number], self._queued.pop(number, None)) as share:
            start = time.monotonic()
            value = self._actions.call(operation, self._values, self._iteration)
            seconds = self.pace.seconds.get(number)
            if seconds is None:
                due_s = time.monotonic()
            else:
                begun_s = max(share.free_s, self._due_to_start(operation, start))
                start = start if self._after[number] else begun_s
                due_s = begun_s + seconds
                sleep_until(due_s)
            end = time.monotonic()
            share.due_s = max(due_s, end - MOST_LATE_S)
        self._note(operation, value, (start, end, due_s))

    def _send(self, operation: ProgramOperation) -> None:
        assert operation.channel is not None
        start, used = time.monotonic(), time.thread_time()
        message = self._actions.message(operation, self._values, self._iteration)
        leaves_s = self._coded_by(operation, start, time.thread_time() - used)
        sized = self._actions.message_bytes(operation) is not None
        due_s = self._transport.send_due(
            operation.channel,
            message,
            min(leaves_s, time.monotonic()),
            sized=sized,
            until_left=operation.number in self._followed,
        )
        self._note(operation, None, (start, time.monotonic(), due_s), message.numel())

    def _coded_by(self, operation: ProgramOperation, started_s: float, took_s: float) -> float:
        """When the coding of a message or an average was due to end; where that is padded, it is waited for."""
        padded_s = self.pace.seconds.get(operation.number)
        due_s = self._due_to_start(operation, started_s) + (took_s if padded_s is None else padded_s)
        if padded_s is not None:
            sleep_until(due_s)
        return due_s

    def _note_delivered(self, delivered: Delivered) -> None:
        """Note a transfer of samples for the iteration that has begun."""
        self._note(delivered.operation, delivered.value, delivered.span, delivered.size_bytes)
        self._lane_done()

    def _due_to_start(self, operation: ProgramOperation, started_s: float) -> float:
        """When an operation that has started was due to start: when all before it were due to end."""
        before = [self._due_s[need] for need in self._after[operation.number]]
        return max(self._began_s, started_s - MOST_LATE_S, *before)

    def _note(self, operation: ProgramOperation, value: Any, span: Span, size: int = 0) -> None:
        channel = None if operation.channel is None else operation.channel.number
        whose, (start, end, due_s) = self._whose[operation.number], span
        record = OperationRecord(
            operation.number, operation.said, whose, channel, start, end, size, max(0.0, end - due_s)
        )
        with self._lock:
            self._values.setdefault(operation.number, value)
            self._records.append(record)
            self._due_s[operation.number] = max(due_s, end - MOST_LATE_S)
        if operation.number in self._done:
            self._done[operation.number].set()

    def _lane_done(self) -> None:
        with self._lock:
            self._going -= 1
            last = self._going == 0
        if last:
            self._report()

    def _report(self) -> None:
        self._finished(IterationResult(self._iteration, self._records, dict(self._values), self._began_s))


def _lanes(program: Program) -> list[list[ProgramOperation]]:
    """Operations that run one after another in one thread: the calls of each instance, and messages that leave in turn.

    Any other runs alone. Transfers of samples are not among them.
    """
    calls: dict[int, list[ProgramOperation]] = {}
    sent: dict[int, list[ProgramOperation]] = {}
    others = []
    for operation in sorted(program.operations, key=lambda each: each.behind is not None):
        if operation.op in CALLS:
            calls.setdefault(operation.instance, []).append(operation)
        elif operation.behind is not None:
            sent[operation.behind].append(operation)
            sent[operation.number] = sent[operation.behind]
        elif operation.what not in SAMPLES:
            others.append([operation])
            if operation.op == "send":
                sent[operation.number] = others[-1]
    return [*calls.values(), *others]


def _needs(lanes: list[list[ProgramOperation]]) -> dict[int, list[int]]:
    """What each operation waits for: those it comes after that run in other lanes."""
    made: dict[int, list[int]] = {}
    for lane in lanes:
        own = {operation.number for operation in lane}
        made |= {operation.number: [need for need in operation.after if need not in own] for operation in lane}
    return made


def _after(program: Program) -> dict[int, list[int]]:
    """What each operation follows on this node: those it comes after, and the previous call of its instance."""
    made = {operation.number: list(operation.after) for operation in program.operations}
    last: dict[int, int] = {}
    for operation in program.operations:
        if operation.op in CALLS:
            made[operation.number] += [last[operation.instance]] if operation.instance in last else []
            last[operation.instance] = operation.number
    return made


def _whose(program: Program) -> dict[int, int]:
    """The instance at this end of each operation, as on the event clock: an output arrives at the one it goes into."""
    instances = program.phase.instances
    numbers = {instance.id: k for k, instance in enumerate(instances)}
    takers = [numbers.get(instance.into or "", k) for k, instance in enumerate(instances)]
    taken = {(Kind.OUTPUT, "receive"), (Kind.GRADIENT, "send")}
    return {o.number: takers[o.instance] if (o.what, o.op) in taken else o.instance for o in program.operations}
