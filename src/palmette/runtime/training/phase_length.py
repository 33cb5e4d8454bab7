"""How long a phase is: the iterations of an epoch, and where the phase stands in the whole training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from palmette.runtime.data.shards import Share, epoch_steps, own_data, owners, shares_of, source_nodes
from palmette.runtime.training.job import Job
from palmette.spec.plan import Phase


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a phase stands in the whole training: what came before it, how long an epoch is, how long all is.

    Iterations and epochs run on from phase to phase, and so do this machine's time and that of the emulated clock.
    """

    iteration: int
    epoch: int
    iterations: int
    epoch_iterations: int
    wall_s: float
    clock_s: float

    def numbers(self, at: int) -> tuple[int, int]:
        """The numbers of iteration and epoch in the whole training, of the phase's iteration ``at``."""
        return self.iteration + at, self.epoch + at // self.epoch_iterations


def phase_iterations(phase: Phase, job: Job) -> int:
    """Iterations of a phase: as many as were asked for, else whole epochs."""
    if job.iterations is not None:
        return job.iterations
    return (job.epochs or phase.epochs or 1) * epoch_iterations(phase, job)


def epoch_iterations(phase: Phase, job: Job) -> int:
    """Iterations of an epoch: the part of the data that the plan uses, in batches.

    Under ``epoch`` these are the steps of the tree that takes the most; under ``async``, steps of any tree.
    """
    match phase.sync:
        case "step":
            return _common_steps(phase, job)
        case "epoch":
            return max(tree_steps(phase, job))
        case _:
            return _worker_steps(phase, job)


def shares(phase: Phase, job: Job) -> list[Share]:
    """What each source of a phase owns."""
    return shares_of(phase, job.evaluator.cluster, job.data.name)


def tree_steps(phase: Phase, job: Job) -> list[int]:
    """Steps that each tree takes in an epoch of federated averaging."""
    return epoch_steps(phase, shares(phase, job), job.data_sizes)


def _common_steps(phase: Phase, job: Job) -> int:
    """Batches that hold as many samples as an epoch uses of all sources' data."""
    if own_data(source_nodes(phase), job.evaluator.cluster):
        samples = _used_samples(phase, job)
    else:
        owned = owners(phase.sources[0].node, job.evaluator.cluster)
        used = sum(job.evaluator.epoch_samples(phase).values())
        samples = len(job.data.train) * min(1.0, used / sum(owned.values()))
    return max(1, math.ceil(samples / phase.batch - 1e-9))


def _used_samples(phase: Phase, job: Job) -> float:
    """Samples that an epoch uses of what the sources own."""
    return sum(share.size(job.data_sizes[share.data]) * share.fraction for share in shares(phase, job))


def _worker_steps(phase: Phase, job: Job) -> int:
    """Steps in which the trees, each at its estimated rate, go through what all sources use."""
    used = _used_samples(phase, job)
    played = [(tree.batch, played.total_s) for tree, _, played in job.evaluator.price(phase).played]
    rates = [1 / time_s if time_s else 1.0 for _, time_s in played]
    batch = sum(many * rate for (many, _), rate in zip(played, rates, strict=True)) / sum(rates)
    return max(1, math.ceil(used / batch - 1e-9))
