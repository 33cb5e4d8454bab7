"""The estimated time of what is left of a run."""

from __future__ import annotations

from palmette.runtime.data.epoch_length import tree_steps
from palmette.runtime.training.job import Job
from palmette.runtime.training.segments import Segment, Segments


def remaining_s(segments: Segments, job: Job, number: int, at: int) -> float:
    """Estimated seconds of all iterations from a segment's iteration ``at`` on, on the emulated clock."""
    ahead = segments.all[number:]
    done_s = _iterations_s(ahead[0], job, at) if ahead else 0.0
    return sum(_iterations_s(each, job, each.iterations) for each in ahead) - done_s


def _iterations_s(segment: Segment, job: Job, many: int) -> float:
    """Seconds of the first iterations of a segment; those of the first epoch may take longer.

    For shards of their own, an epoch divided by its iterations, so that the exchange of weights counts too.
    """
    phase = segment.phase
    if phase.sync_kind.averages_weights and not phase.sync_kind.common_batch:
        epoch_s = job.evaluator.epoch_s(phase, tree_steps(phase, job.evaluator, job.epoch_data))
        return many * epoch_s / segment.epoch_iterations
    price = job.evaluator.price(phase)
    first = min(many, segment.epoch_iterations)
    return first * price.first_epoch_iteration_s + (many - first) * price.iteration_s
