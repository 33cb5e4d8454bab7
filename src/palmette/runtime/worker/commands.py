"""The messages between engine and workers: commands to the workers, events to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from palmette.runtime.record.operations import Record
from palmette.runtime.worker.executor import Pace


@dataclass(frozen=True)
class Go:
    """Run iterations ``first`` to ``last`` (inclusive) of one of the worker's programs."""

    program: int
    first: int
    last: int


@dataclass(frozen=True)
class SetPace:
    """Pad the calls of a program to this pace from now on."""

    program: int
    pace: Pace


@dataclass(frozen=True)
class GiveState:
    """Send the weights and optimizer state of these layers: as they are, or as they were ``after`` an iteration.

    All workers have completed that iteration.
    """

    layers: tuple[int, ...]
    after: int | None = None


@dataclass(frozen=True)
class Rehearse:
    """Calibrate: time the calls of a program on synthetic data, without changing the training state."""

    program: int


@dataclass(frozen=True)
class Stop:
    """Shut down."""


Command = Go | SetPace | GiveState | Rehearse | Stop


@dataclass(frozen=True)
class Ready:
    """Connected to all peers, and waiting for commands."""


@dataclass(frozen=True)
class Alive:
    """Nothing to report, but the worker is alive."""


@dataclass(frozen=True)
class Done:
    """An iteration of a program is done on this node; ``loss`` is the sum over its roots."""

    program: int
    iteration: int
    loss: float
    records: list[Record] = field(repr=False)


@dataclass(frozen=True)
class State:
    """Weights and optimizer state in the safetensors format."""

    weights: bytes = field(repr=False)
    optimizer: bytes = field(repr=False)


@dataclass(frozen=True)
class Rehearsal:
    """Seconds of each call without padding, by operation number.

    ``work`` is the fraction of the profiled work that a call does; calls that are not in it do all of it.
    """

    seconds: Mapping[int, float]
    work: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rehearsed:
    """The result of calibrating a program."""

    program: int
    found: Rehearsal


@dataclass(frozen=True)
class Failed:
    """The worker cannot continue; ``lost`` if only because it lost a peer, which may report more.

    ``peer`` is the worker that it lost, or has not heard from; ``link`` are the nodes between which that was, if not
    these two; ``exhausted``: its node ran out of memory.
    """

    reason: str
    lost: bool = False
    peer: str | None = None
    link: tuple[str, str] | None = None
    exhausted: bool = False


Event = Ready | Alive | Done | State | Rehearsed | Failed


class Control(Protocol):
    """A worker's connection to the engine."""

    def send(self, event: Event) -> None:
        """Send an event to the engine; may be called from any thread."""
        ...

    def receive(self) -> Command:
        """Wait for the next command."""
        ...
