"""What peers are told: what to train, in which way, and what to do in a step. Plain data, sent to their processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol

from palmette.spec.profile import Times

Schedule = Literal["gpipe", "1f1b"]


@dataclass(frozen=True)
class Lesson:
    """What is trained: the same for all contenders."""

    model: str
    batch: int
    seed: int = 1
    lr: float = 0.01
    data: str = "digits"


@dataclass(frozen=True)
class Ddp:
    """One whole replica a node; ``splits`` are the ways to share a batch that will be asked for."""

    splits: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Pipeline:
    """A stage a node; ``cuts`` are the last layers of all stages but the last."""

    nodes: tuple[str, ...]
    cuts: tuple[int, ...]
    microbatches: int
    schedule: Schedule

    def runs(self, depth: int) -> list[tuple[int, int]]:
        """First and last layer of each stage."""
        ends = (0, *self.cuts, depth)
        return [(before + 1, end) for before, end in pairwise(ends)]

    def __str__(self) -> str:
        cut = "|".join(map(str, self.cuts))
        return f"{self.schedule}, {' → '.join(self.nodes)}, cut after {cut}, {self.microbatches} microbatches"


@dataclass(frozen=True)
class PlainScript:
    """The last node trains the whole network by itself; the first, if there is another, has the data."""


class Trainer(Protocol):
    """Trains a step when it is told to."""

    def step(self, order: Order) -> Done:
        """A step."""
        ...


@dataclass(frozen=True)
class MadeElsewhere:
    """A trainer that another benchmark makes, in the worker's process."""

    make: Callable[[Setup], Trainer]


Way = Ddp | Pipeline | PlainScript | MadeElsewhere


@dataclass(frozen=True)
class Setup:
    """What a worker needs to know; ``address`` is its node's."""

    lesson: Lesson
    way: Way
    rank: int
    world: int
    store: Path
    address: str
    times: Times
    dilation: float


@dataclass(frozen=True)
class Order:
    """One step. DDP: how the batch is shared, and whether the device sends the others their samples."""

    iteration: int
    split: tuple[int, ...] = ()
    send_data: bool = True


@dataclass(frozen=True)
class Copy:
    """The first rank sends each rank so many bytes of stored samples, all at once."""

    size_bytes: tuple[int, ...]


@dataclass(frozen=True)
class Done:
    """When a worker began and ended a step or a copy, and its part of the loss."""

    began_s: float
    ended_s: float
    loss: float


@dataclass(frozen=True)
class Failed:
    """Why a worker cannot go on."""

    reason: str
