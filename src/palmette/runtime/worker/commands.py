"""What engine and workers tell each other: commands one way, events the other."""

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
    """Pad the calls of a program from now on."""

    program: int
    pace: Pace


@dataclass(frozen=True)
class GiveState:
    """Send the weights of these layers, and what the optimizer keeps for them: as they are, or were ``after`` an
    iteration that all have done.
    """

    layers: tuple[int, ...]
    after: int | None = None


@dataclass(frozen=True)
class Rehearse:
    """Time the calls of a program on made-up data, so that nothing of the training changes."""

    program: int


@dataclass(frozen=True)
class Stop:
    """End."""


Command = Go | SetPace | GiveState | Rehearse | Stop


@dataclass(frozen=True)
class Ready:
    """Connected to all others, and waiting."""


@dataclass(frozen=True)
class Alive:
    """Nothing has happened, but the worker is there."""


@dataclass(frozen=True)
class Done:
    """An iteration of a program is done on this node; losses are those of its roots, added up."""

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
    """Seconds of each call when nothing is padded, by the operation's number.

    ``work`` is what calls do as a part of what the profile assumes; those that are not in it do all of that.
    """

    seconds: Mapping[int, float]
    work: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rehearsed:
    """What the rehearsal of a program found."""

    program: int
    found: Rehearsal


@dataclass(frozen=True)
class Failed:
    """The worker cannot go on; ``lost`` if only because it lost another one, which may know more.

    ``peer`` is the worker that it lost, or that it has not heard from, ``link`` between whom that was if not between
    the two; ``exhausted``: its node has too little memory.
    """

    reason: str
    lost: bool = False
    peer: str | None = None
    link: tuple[str, str] | None = None
    exhausted: bool = False


Event = Ready | Alive | Done | State | Rehearsed | Failed


class Control(Protocol):
    """A worker's line to the engine."""

    def send(self, event: Event) -> None:
        """Tell the engine; may be called from any thread."""
        ...

    def receive(self) -> Command:
        """Wait for the next command."""
        ...
