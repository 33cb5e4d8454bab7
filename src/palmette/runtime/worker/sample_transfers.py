"""A node's transfers of samples, each in a thread of its own, which may be ahead of the iterations.

What arrives early waits for its iteration. The samples that a node sends for an iteration leave before any of the next.

    iterations   ├──── 4 ────┼──── 5 ────┤
    samples      ├ 5 ┼ 6 ┼ 7 ┼ 8 ┤  ├ 9 ┤        here up to four iterations ahead
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from palmette.cost.steps import SAMPLES, Kind
from palmette.runtime.program import Program, ProgramOperation
from palmette.runtime.record.operations import MOST_LATE_S, Span
from palmette.runtime.transports.base import TimedTransport, TransportClosed
from palmette.runtime.worker.deliveries import Deliveries, SampleReceiver, SampleSender


@dataclass(frozen=True)
class Delivered:
    """A transfer of samples that is done: what arrived, when, and how many bytes."""

    operation: ProgramOperation
    value: list[bytes] | None
    span: Span
    size_bytes: int = 0


class SampleTransfers:
    """All transfers of samples of one node; ``arrived`` is called with each that is done in its iteration."""

    def __init__(
        self,
        program: Program,
        deliveries: Deliveries,
        transport: TimedTransport,
        arrived: Callable[[Delivered], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._ahead = program.phase.ahead_iterations if program.phase.ahead else 0
        self._deliveries, self._transport = deliveries, transport
        self._arrived = arrived
        self._iteration, self._began_s = -1, 0.0
        self._early: dict[int, list[Delivered]] = {}
        self._left_s: dict[int, float] = {}
        self._lock = threading.Lock()
        operations = [each for each in program.operations if each.what in SAMPLES]
        sends = [each for each in operations if (each.what, each.op) == (Kind.DATA, "send")]
        self._together = threading.Barrier(max(1, len(sends)))
        self._threads = [_TransferThread(each, self._carry, failed) for each in operations]

    def __len__(self) -> int:
        return len(self._threads)

    def begin(self, iteration: int, began_s: float, until: int) -> None:
        """Begin an iteration; the samples of those up to ``until`` may travel ahead, as far as the phase allows."""
        with self._lock:
            self._iteration, self._began_s = iteration, began_s
            early = self._early.pop(iteration, [])
        for thread in self._threads:
            ahead = self._ahead if thread.operation.what is Kind.DATA else 0
            thread.allow(iteration, max(iteration, min(iteration + ahead, until)))
        for delivered in early:
            self._arrived(delivered)

    def close(self) -> None:
        """End the threads; one that waits for a message ends with the process."""
        self._together.abort()
        for thread in self._threads:
            thread.close()

    def _carry(self, operation: ProgramOperation, iteration: int) -> None:
        """Carry out a transfer for an iteration, and report it, or keep it until its iteration begins."""
        delivered = (self._send if operation.op == "send" else self._receive)(operation, iteration)
        with self._lock:
            if iteration != self._iteration:
                self._early.setdefault(iteration, []).append(delivered)
                return
        self._arrived(delivered)

    def _send(self, operation: ProgramOperation, iteration: int) -> Delivered:
        sender = self._deliveries[operation.number]
        assert isinstance(sender, SampleSender)
        assert operation.channel is not None
        if operation.what is Kind.DATA:
            self._together.wait()
        start, used = time.monotonic(), time.thread_time()
        message = sender.message(iteration)
        if message is None:
            return Delivered(operation, None, (start, start, start))
        due_to_start_s = max(self._began_s, self._left_s.get(operation.number, 0.0), start - MOST_LATE_S)
        leaves_s = due_to_start_s + time.thread_time() - used
        due_s = self._transport.send_due(
            operation.channel,
            message,
            min(leaves_s, time.monotonic()),
            sized=False,
            background=bool(self._ahead) or operation.what is Kind.UPLOAD,
        )
        end = self._left_s[operation.number] = time.monotonic()
        return Delivered(operation, None, (start, end, due_s), message.numel())

    def _receive(self, operation: ProgramOperation, iteration: int) -> Delivered:
        receiver = self._deliveries[operation.number]
        assert isinstance(receiver, SampleReceiver)
        assert operation.channel is not None
        start = time.monotonic()
        if not len(receiver.expected(iteration)):
            return Delivered(operation, [], (start, start, start))
        message, due_s = self._transport.receive_due(operation.channel, None)
        span = start, time.monotonic(), due_s
        return Delivered(operation, receiver.arrived(iteration, message), span, message.numel())


class _TransferThread:
    """The thread of one transfer: carries it out for every iteration that was allowed, in order."""

    def __init__(
        self,
        operation: ProgramOperation,
        carry: Callable[[ProgramOperation, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.operation, self._carry, self._failed = operation, carry, failed
        self._allowed: SimpleQueue[int | None] = SimpleQueue()
        self._next = 0
        threading.Thread(target=self._work, daemon=True).start()

    def allow(self, first: int, until: int) -> None:
        """Allow the iterations up to ``until``, from ``first`` on; those that were allowed before count once."""
        for iteration in range(max(first, self._next), until + 1):
            self._allowed.put(iteration)
        self._next = max(self._next, until + 1)

    def close(self) -> None:
        """End the thread."""
        self._allowed.put(None)

    def _work(self) -> None:
        try:
            while (iteration := self._allowed.get()) is not None:
                self._carry(self.operation, iteration)
        except (TransportClosed, threading.BrokenBarrierError):
            return
        except BaseException as error:  # noqa: BLE001  (passed to whoever waits for the iteration)
            self._failed(error)
