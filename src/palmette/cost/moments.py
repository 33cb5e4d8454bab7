"""How much an iteration varies where the bandwidth of links does: it is played from many moments of their traces."""

from __future__ import annotations

import math
import statistics

from palmette.cost.evaluate import Evaluator, Price
from palmette.spec.plan import Phase

MOMENTS = 40
QUANTILES = (0.1, 0.5, 0.9)


def iterations_s(phase: Phase, prices: Evaluator, many: int = MOMENTS) -> list[float]:
    """Seconds of an iteration that begins at each of so many moments, evenly over the longest trace."""
    traces = [link.bandwidth_trace for link in prices.cluster.links if link.bandwidth_trace is not None]
    longest_s = max((trace.length_s for trace in traces), default=0.0)
    return [_price_at(longest_s * k / many, phase, prices).iteration_s for k in range(many if traces else 1)]


def successive_s(phase: Phase, prices: Evaluator, many: int) -> list[float]:
    """Seconds of so many iterations one after the other, the first at the beginning of the traces."""
    found: list[float] = []
    moment_s = 0.0
    for _ in range(many):
        found.append(_price_at(moment_s, phase, prices).iteration_s)
        moment_s += found[-1]
    return found


def _price_at(moment_s: float, phase: Phase, prices: Evaluator) -> Price:
    """The price of a phase at a moment of the traces."""
    return Evaluator(prices.profile, prices.cluster, prices.optimizer, prices.exchange, moment_s).price(phase)


def moments(phase: Phase, prices: Evaluator) -> dict[str, float]:
    """The mean of an iteration over moments, and what it takes at most in one, five and nine of ten of them."""
    found = sorted(iterations_s(phase, prices))
    at_most = {f"iteration_s_{share:g}": found[math.ceil(share * len(found)) - 1] for share in QUANTILES}
    return {"mean_iteration_s": statistics.fmean(found), **at_most}
