"""Random delays of messages, the same in every run: exponential, with the mean that each link of a route has."""

from __future__ import annotations

import random
from collections.abc import Sequence


class Jitter:
    """The delays of one channel's messages, one after the other."""

    def __init__(self, means_s: Sequence[float], seed: int) -> None:
        self._means_s, self._random = tuple(means_s), random.Random(seed)  # noqa: S311 -- no secret

    def next_s(self) -> float:
        """How much longer than the mean the next message takes; less than 0 where it is faster."""
        return sum(self._random.expovariate(1 / mean_s) - mean_s for mean_s in self._means_s)
