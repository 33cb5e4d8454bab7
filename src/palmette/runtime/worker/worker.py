"""A worker: executes one node's programs on command, and sends its weights on request.

It holds only the layers of its own instances, and does not know whether its network and speed are real or emulated.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from safetensors.torch import save as to_bytes

from palmette.cost.steps import GRADIENT_CALLS
from palmette.runtime.data.kept_samples import from_numbers, to_numbers
from palmette.runtime.data.left_samples import delete_folder, delete_others
from palmette.runtime.program import Program
from palmette.runtime.worker.actions import BackwardResult
from palmette.runtime.worker.calibration import calibrate
from palmette.runtime.worker.commands import (
    AgreeOnMasks,
    Calibrate,
    Calibrated,
    Command,
    ControlChannel,
    DeleteKept,
    EngineGone,
    Evaluate,
    EvaluationReply,
    Execute,
    GetState,
    IterationDone,
    KeptDeleted,
    KeptVerified,
    Ready,
    SetPace,
    StateReply,
    Stop,
    TrustKept,
    VerifyKept,
)
from palmette.runtime.worker.cpu_queue import CpuQueue
from palmette.runtime.worker.deliveries import SampleReceiver, SampleSender
from palmette.runtime.worker.executor import Actions, Executor, IterationResult
from palmette.runtime.worker.failure import failure
from palmette.runtime.worker.kept_state import write_kept
from palmette.runtime.worker.owner_evaluation import owner_sums
from palmette.runtime.worker.setup import Setup, unshared


class Worker:
    """Executes the programs of one node."""

    def __init__(self, setup: Setup, control: ControlChannel) -> None:
        self._setup, self._control = setup, control
        if setup.store is not None:
            delete_others(setup.store.folder, setup.node)
        self._transport = setup.endpoint.connect(setup.node)
        self._cpu = CpuQueue(setup.cpu_limit, rests=setup.rests)
        self._side = setup.side(setup)
        self._executors: dict[int, Executor] = {}
        self._senders: dict[str, list[SampleSender]] = {}
        self._receivers: dict[str, list[SampleReceiver]] = {}
        self._last: dict[int, int] = {}
        self._stopped = False
        self._finished_last = -1
        for number, program in enumerate(setup.programs):
            if program is not None:
                self._add(number, program)

    def _add(self, number: int, program: Program) -> None:
        actions = self._side.actions(number, program)
        self._note_deliveries(program, actions)
        backwards = [o.number for o in program.operations if o.what in GRADIENT_CALLS]
        self._executors[number] = Executor(
            program, actions, self._transport, self._cpu, lambda result: self._finished(number, backwards, result)
        )

    def _note_deliveries(self, program: Program, actions: Actions) -> None:
        """Note this node's ends of the transfers of samples, by the node at the other end."""
        for operation in program.operations:
            delivery = actions.deliveries.get(operation.number)
            if operation.channel is not None and isinstance(delivery, SampleSender):
                self._senders.setdefault(operation.channel.receiver, []).append(delivery)
            elif operation.channel is not None and isinstance(delivery, SampleReceiver):
                self._receivers.setdefault(operation.channel.sender, []).append(delivery)

    def _kept(self) -> dict[str, bytes]:
        """The samples that were kept before, listed by their owner."""
        owners = [owner for owner, ends in self._receivers.items() if any(end.keeps for end in ends)]
        return self._setup.store.listed(owners) if self._setup.store is not None else {}

    def _verified(self, receiver: str, listed: bytes) -> bytes:
        """The samples that a node has kept unchanged; all sources that feed it draw from the same data."""
        found: list[int] = []
        for sender in self._senders.get(receiver, ()):
            found = sender.verified(listed) if sender.keeps else found
        return from_numbers(found)

    def _trust(self, owner: str, numbers: Sequence[int]) -> None:
        """Use the samples that their owner has found unchanged, and no others that were kept."""
        if self._setup.store is not None:
            self._setup.store.of(owner).keep_only(numbers)
        for receiver in self._receivers.get(owner, ()):
            receiver.trust(numbers)

    def run(self) -> None:
        """Execute commands until the one to stop.

        Raises:
            EngineGone: no more will come; what a resumed run may need is written.
        """
        masks = self._side.masks
        self._control.send(Ready(self._kept(), masks.public_key if masks is not None else b""))
        try:
            while not isinstance(command := self._control.receive(), Stop):
                self._obey(command)
        except EngineGone:
            self._keep_state()
            raise
        self.close()

    def stop(self) -> None:
        """End after the current iteration, however many were asked for; from any thread."""
        self._stopped = True

    def close(self) -> None:
        """End threads and connections."""
        self.stop()
        for executor in self._executors.values():
            executor.close()
        self._transport.close()
        if self._setup.store is not None:
            self._setup.store.close()

    def _keep_state(self) -> None:
        folder = self._setup.kept_state
        if folder is not None and folder.parent.exists():
            states = self._side.last_states(self._finished_last)
            write_kept(folder, self._setup.node, {iteration + 1: state for iteration, state in states.items()})

    def _obey(self, command: Command) -> None:
        match command:
            case Execute():
                self._last[command.program] = command.last
                self._executors[command.program].samples_until = command.samples_until
                self._go(command.program, command.first)
            case SetPace():
                self._executors[command.program].pace = command.pace
            case Calibrate():
                found = calibrate(self._executors[command.program].program, self._setup)
                self._control.send(Calibrated(command.program, found))
            case VerifyKept() | TrustKept() | DeleteKept():
                self._obey_about_kept(command)
            case AgreeOnMasks():
                if self._side.masks is not None:
                    self._side.masks.agree(command.keys)
            case Evaluate():
                self._control.send(EvaluationReply(owner_sums(self._setup, self._side, command)))
            case GetState():
                weights, optimizer = self._side.state(command.layers, command.after)
                self._control.send(StateReply(to_bytes(unshared(weights)), to_bytes(unshared(optimizer))))

    def _obey_about_kept(self, command: VerifyKept | TrustKept | DeleteKept) -> None:
        match command:
            case VerifyKept():
                self._control.send(KeptVerified(command.receiver, self._verified(command.receiver, command.listed)))
            case TrustKept():
                self._trust(command.owner, to_numbers(command.numbers).tolist())
            case DeleteKept():
                if self._setup.store is not None:
                    delete_folder(self._setup.store.folder)
                self._control.send(KeptDeleted())

    def _go(self, number: int, first: int) -> None:
        executor = self._executors[number]
        if not executor.inline:
            executor.run(first)
        elif len(self._executors) == 1 and not self._setup.rollback:
            self._go_through(number, first)
        else:  # programs run in parallel, and a worker that can roll back must answer while one runs
            threading.Thread(target=self._go_through, args=(number, first), daemon=True).start()

    def _go_through(self, number: int, first: int) -> None:
        try:
            for iteration in range(first, self._last[number] + 1):
                if self._stopped:
                    return
                self._executors[number].run(iteration)
        except BaseException as error:  # noqa: BLE001  (sent to the engine, which ends the run)
            self._control.send(failure(error))

    def _finished(self, number: int, backwards: Sequence[int], result: IterationResult | BaseException) -> None:
        if isinstance(result, BaseException):
            self._control.send(failure(result))
            return
        loss = sum(value.loss for k in backwards if isinstance(value := result.values[k], BackwardResult))
        executor = self._executors[number]
        self._finished_last = result.iteration
        # Decided before the engine is informed: its next command may change the last iteration.
        goes_on = not executor.inline and result.iteration < self._last[number]
        self._control.send(IterationDone(number, result.iteration, loss, result.began_s, result.records))
        if goes_on:
            executor.run(result.iteration + 1)
