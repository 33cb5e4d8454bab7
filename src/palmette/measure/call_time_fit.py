"""Fits a line to the times of a few batch sizes: the fixed part of a call, and seconds per sample.

Least squares of the *relative* errors: a plain fit would follow the largest batch alone, and be wrong for the small
parts of a batch that a planner gives to slow nodes. Neither part can be negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class CallTime:
    """Seconds of a call: a fixed part, and a part per sample."""

    call_s: float
    sample_s: float

    def at(self, samples: float) -> float:
        """Seconds of a call on so many samples."""
        return self.call_s + samples * self.sample_s


def fit_call_time(samples: Sequence[int], times_s: Sequence[float]) -> CallTime:
    """The line with the least relative error of the times of calls on so many samples; no part below 0."""
    seen = [(many, time_s) for many, time_s in zip(samples, times_s, strict=True) if time_s > 0]
    if not seen:
        return CallTime(0.0, 0.0)
    system = np.array([(1.0 / time_s, many / time_s) for many, time_s in seen])
    (call_s, sample_s), _ = nnls(system, np.ones(len(seen)))
    return CallTime(float(call_s), float(sample_s))


def worst_error(lines: Sequence[CallTime], samples: Sequence[int], total_s: Sequence[float]) -> float:
    """The relative error of the lines' sum at the worst batch size: 0.05 is 5%."""
    sums = (sum(line.at(many) for line in lines) for many in samples)
    return max(abs(found - real) / real for found, real in zip(sums, total_s, strict=True))
