"""The estimated time of what is left of a run."""

from __future__ import annotations

from palmette.runtime.data.epoch_length import tree_steps
from palmette.runtime.training.job import Job
from palmette.runtime.training.segments import Segment, Segments


def remaining_s(segments: Segments, job: Job, number: int, at: int) -> float:
    """Estimated seconds of all iterations from a segment's iteration ``at`` on, on the emulated clock."""
    ahead = segments.all[number:]
    done_s = at * _iteration_s(ahead[0], job) if ahead else 0.0
    return sum(each.iterations * _iteration_s(each, job) for each in ahead) - done_s


def _iteration_s(segment: Segment, job: Job) -> float:
    """For federated averaging, an epoch divided by its iterations, so that the exchange of weights counts too."""
    phase = segment.phase
    if phase.sync_kind.averages_weights:
        return job.evaluator.epoch_s(phase, tree_steps(phase, job.evaluator, job.epoch_data)) / segment.epoch_iterations
    return job.evaluator.price(phase).iteration_s
