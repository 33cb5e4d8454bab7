"""A worker: one node's share of a run. It executes programs when told to, and gives its weights when asked.

It holds the layers of its own instances and nothing else, and does not know whether its network and its speed are real.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from palmette.cost.steps import Kind
from palmette.runtime.options import Options
from palmette.runtime.program import Program, numbers_of
from palmette.runtime.sync.asynchronous import AsyncRole
from palmette.runtime.sync.base import Role
from palmette.runtime.sync.epoch import EpochRole
from palmette.runtime.sync.handover import RelayRole
from palmette.runtime.sync.step import StepRole
from palmette.runtime.transports.base import Transport
from palmette.runtime.worker.actions import Passed, Samples
from palmette.runtime.worker.calibration import rehearsed
from palmette.runtime.worker.commands import (
    Command,
    Control,
    Done,
    GiveState,
    Go,
    Ready,
    Rehearse,
    Rehearsed,
    SetPace,
    State,
    Stop,
)
from palmette.runtime.worker.cpu_queue import Cpu
from palmette.runtime.worker.executor import Executor, Finished
from palmette.runtime.worker.failure import failure
from palmette.spec.sync import Sync


class Place(Protocol):
    """Where workers meet; joining connects them."""

    def join(self, node: str) -> Transport:
        """Connect as ``node``; returns when all are there."""
        ...


class Source(Protocol):
    """What a worker needs to find its samples, made where it runs."""

    def samples(self, program: Program) -> Samples:
        """The samples of the sources in a program."""
        ...


@dataclass(frozen=True)
class Setup:
    """All that a worker is told when it starts.

    ``sync`` is how the node trains, or that it only hands layers over.
    ``shapes`` are those of one sample: of the input, then of each layer's output. There is a program
    for each part of the phase (see ``parts``), None for those in which the node has no part. A node that ``keeps`` can
    go back to the iteration before, should another be lost.
    """

    node: str
    place: Place
    programs: Sequence[Program | None]
    layers: Mapping[int, nn.Module] = field(repr=False)
    shapes: Sequence[tuple[int, ...]]
    input_dtype: torch.dtype
    options: Options
    source: Source
    sync: Sync | Literal["relay"] = "step"
    cpu_limit: float = 1.0
    device: str = "cpu"
    keeps: bool = False
    optimizer: bytes = field(default=b"", repr=False)


ROLES: dict[str, Callable[[Setup], Role]] = {
    "step": StepRole,
    "epoch": EpochRole,
    "async": AsyncRole,
    "relay": RelayRole,
}


class Worker:
    """Executes the programs of one node."""

    def __init__(self, setup: Setup, control: Control) -> None:
        self._setup, self._control = setup, control
        self._transport = setup.place.join(setup.node)
        self._cpu = Cpu(setup.cpu_limit)
        self._role = ROLES[setup.sync](setup)
        self._executors: dict[int, Executor] = {}
        self._last: dict[int, int] = {}
        self._stopped = False
        for number, program in enumerate(setup.programs):
            if program is not None:
                self._add(number, program)

    def _add(self, number: int, program: Program) -> None:
        actions = self._role.actions(number, program)
        backwards = [o.number for o in program.operations if o.what is Kind.BACKWARD and o.op == "backward"]
        self._executors[number] = Executor(
            program, actions, self._transport, self._cpu, lambda result: self._finished(number, backwards, result)
        )

    def run(self) -> None:
        """Obey commands until told to stop."""
        self._control.send(Ready())
        while not isinstance(command := self._control.receive(), Stop):
            self._obey(command)
        self._stopped = True
        for executor in self._executors.values():
            executor.close()
        self._transport.close()

    def _obey(self, command: Command) -> None:
        match command:
            case Go():
                self._last[command.program] = command.last
                self._go(command.program, command.first)
            case SetPace():
                self._executors[command.program].pace = command.pace
            case Rehearse():
                found = rehearsed(self._executors[command.program].program, self._setup)
                self._control.send(Rehearsed(command.program, found))
            case GiveState():
                weights, optimizer = self._role.state(command.layers, command.after)
                self._control.send(State(to_bytes(unshared(weights)), to_bytes(unshared(optimizer))))

    def _go(self, number: int, first: int) -> None:
        executor = self._executors[number]
        if not executor.inline:
            executor.run(first)
        elif len(self._executors) == 1 and not self._setup.keeps:
            self._go_through(number, first)
        else:  # programs of one node go on side by side, and one that keeps what was can be asked for it meanwhile
            threading.Thread(target=self._go_through, args=(number, first), daemon=True).start()

    def _go_through(self, number: int, first: int) -> None:
        try:
            for iteration in range(first, self._last[number] + 1):
                if self._stopped:
                    return
                self._executors[number].run(iteration)
        except BaseException as error:  # noqa: BLE001  (told to the engine, which ends the run)
            self._control.send(failure(error))

    def _finished(self, number: int, backwards: Sequence[int], result: Finished | BaseException) -> None:
        if isinstance(result, BaseException):
            self._control.send(failure(result))
            return
        loss = sum(value.loss for k in backwards if isinstance(value := result.values[k], Passed))
        executor = self._executors[number]
        # Asked before the engine is told: its next command may move the goal.
        goes_on = not executor.inline and result.iteration < self._last[number]
        self._control.send(Done(number, result.iteration, loss, result.records))
        if goes_on:
            executor.run(result.iteration + 1)


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with memory of their own, as the safetensors format wants them."""
    return {name: tensor.clone() for name, tensor in tensors.items()}


def held_layers(program: Program) -> list[int]:
    """The layers that a node needs for a program: those of its instances, and those it averages or updates."""
    held = [program.phase.instances[k].layers for k in program.own]
    held += [run for each in program.operations if each.op in ("average", "update") for run in each.layers]
    return sorted(set(numbers_of(held)))
