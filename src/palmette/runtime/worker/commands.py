"""The messages between engine and workers: commands to the workers, events to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from palmette.runtime.held_out import HeldOutSums
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.worker.executor import Pace


@dataclass(frozen=True)
class Execute:
    """Run iterations ``first`` to ``last`` (inclusive) of one of the worker's programs.

    ``samples_until`` is the last iteration that will follow, for which samples may travel ahead.
    """

    program: int
    first: int
    last: int
    samples_until: int = 0


@dataclass(frozen=True)
class VerifyKept:
    """Say which of these samples, listed by the node ``receiver``, it has kept unchanged."""

    receiver: str
    listed: bytes = field(repr=False)


@dataclass(frozen=True)
class TrustKept:
    """Use these samples of the node ``owner`` that were kept: they are unchanged, and are not sent again."""

    owner: str
    numbers: bytes = field(repr=False)


@dataclass(frozen=True)
class AgreeOnMasks:
    """Agree with these nodes on masks, by their public keys; the own one is among them."""

    keys: Mapping[str, bytes]


@dataclass(frozen=True)
class SetPace:
    """Pad the calls of a program to this pace from now on."""

    program: int
    pace: Pace


@dataclass(frozen=True)
class GetState:
    """Send the weights and optimizer state of these layers: as they are, or as they were ``after`` an iteration.

    All workers have completed that iteration.
    """

    layers: tuple[int, ...]
    after: int | None = None


@dataclass(frozen=True)
class Evaluate:
    """Evaluate the whole network on this node's own held-out data, so many samples at a time.

    ``weights`` is the state that the node does not have itself, in the safetensors format.
    """

    weights: bytes = field(repr=False)
    batch: int


@dataclass(frozen=True)
class Calibrate:
    """Calibrate: time the calls of a program on synthetic data, without changing the training state."""

    program: int


@dataclass(frozen=True)
class DeleteKept:
    """Delete the samples of other nodes that were kept."""


@dataclass(frozen=True)
class Stop:
    """Shut down."""


Command = (Execute | SetPace | GetState | Evaluate | Calibrate) | (
    VerifyKept | TrustKept | AgreeOnMasks | DeleteKept | Stop
)


@dataclass(frozen=True)
class Ready:
    """Connected to all peers, and waiting for commands; ``kept`` are samples from before, listed by their owner.

    ``key`` is the public one of a node that masks its weights.
    """

    kept: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    key: bytes = b""


@dataclass(frozen=True)
class KeptVerified:
    """The samples that the node ``receiver`` has kept unchanged."""

    receiver: str
    numbers: bytes = field(repr=False)


@dataclass(frozen=True)
class KeptDeleted:
    """The samples of other nodes that were kept are deleted."""


@dataclass(frozen=True)
class WorkerAlive:
    """Nothing to report, but the worker is alive."""


@dataclass(frozen=True)
class IterationDone:
    """An iteration of a program is done on this node; ``loss`` is the sum over its roots.

    The node began it at ``began_s``; samples may have been on their way before.
    """

    program: int
    iteration: int
    loss: float
    began_s: float
    records: list[OperationRecord] = field(repr=False)


@dataclass(frozen=True)
class StateReply:
    """Weights and optimizer state in the safetensors format."""

    weights: bytes = field(repr=False)
    optimizer: bytes = field(repr=False)


@dataclass(frozen=True)
class EvaluationReply:
    """What was found on the node's held-out data; the data stays where it is."""

    sums: HeldOutSums


@dataclass(frozen=True)
class Calibration:
    """Seconds of each call without padding, by operation number.

    ``work`` is the fraction of the profiled work that a call does; calls that are not in it do all of it.
    """

    seconds: Mapping[int, float]
    work: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Calibrated:
    """The result of calibrating a program."""

    program: int
    found: Calibration


@dataclass(frozen=True)
class WorkerFailed:
    """The worker cannot continue; ``lost`` if only because it lost a peer, which may report more.

    ``peer`` is the worker that it lost, or has not heard from; ``link`` are the nodes between which that was, if not
    these two; ``exhausted``: its node ran out of memory.
    """

    reason: str
    lost: bool = False
    peer: str | None = None
    link: tuple[str, str] | None = None
    exhausted: bool = False


Event = (Ready | KeptVerified | KeptDeleted | WorkerAlive) | (
    IterationDone | StateReply | EvaluationReply | Calibrated | WorkerFailed
)


class EngineGone(Exception):
    """The engine has ended, or cannot be reached any more."""


class ControlChannel(Protocol):
    """A worker's connection to the engine."""

    def send(self, event: Event) -> None:
        """Send an event to the engine, unless that is gone; may be called from any thread."""
        ...

    def receive(self) -> Command:
        """Wait for the next command.

        Raises:
            EngineGone: none will come.
        """
        ...
