"""How long a phase is, how long its epochs are, and where it is in the whole training."""

from __future__ import annotations

from dataclasses import dataclass

from palmette.runtime.sync.registry import sync_method
from palmette.runtime.training.job import Job
from palmette.spec.plan import Phase


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a phase is in the whole training: what came before it, the length of an epoch, and the total length.

    Iterations, epochs, wall-clock time and the emulated clock are counted across phases.
    """

    iteration: int
    epoch: int
    iterations: int
    epoch_iterations: int
    wall_s: float
    clock_s: float

    def numbers(self, at: int) -> tuple[int, int]:
        """The iteration and the epoch in the whole training of the phase's iteration ``at``."""
        return self.iteration + at, self.epoch + at // self.epoch_iterations


def phase_iterations(phase: Phase, job: Job) -> int:
    """Iterations of a phase: as many as requested, else whole epochs."""
    if job.iterations is not None:
        return job.iterations
    return (job.epochs or phase.epochs or 1) * epoch_iterations(phase, job)


def epoch_iterations(phase: Phase, job: Job) -> int:
    """Iterations of an epoch: the part of the data that the plan uses, in batches.

    Under ``epoch`` these are the steps of the tree that takes the most; under ``async``, steps of any tree.
    """
    return sync_method(phase).epoch_iterations(phase, job.evaluator, job.epoch_data)
