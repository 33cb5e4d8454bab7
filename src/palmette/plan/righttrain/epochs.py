"""How long to train: the epochs and the samples that reach a loss in the fewest iterations.

An iteration costs the same whatever the number of epochs, so that for a given number of replicas the fewest
iterations, epochs × ⌈samples an epoch / batch⌉, are best for time and for energy alike. For each number of epochs the
samples are the least that reach the loss; for each number of iterations an epoch, the epochs are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from palmette.spec.learning import Learning

MOST_EPOCHS = 10**12
_TRIED = 4_000  # beyond so many epochs and iterations an epoch, one more changes their product by less than 0.03%


@dataclass(frozen=True)
class Schedule:
    """Epochs, samples of an epoch over all sources in use, and iterations of an epoch."""

    epochs: int
    samples: int
    epoch_iterations: int

    @property
    def iterations(self) -> int:
        """Iterations of the whole training."""
        return self.epochs * self.epoch_iterations


@dataclass(frozen=True)
class Target:
    """A loss to reach, of all ``samples`` that there are, in batches."""

    learning: Learning
    loss: float
    samples: int
    batch: int

    def schedule(self, replicas: int, most: int, least: int = 1) -> Schedule | None:
        """The fewest iterations that reach the loss with at most ``most`` samples an epoch; None if none do."""
        return _fewest(self, replicas, most, least)

    def fewest(self, replicas: int, most: int, least: int) -> Schedule | None:
        """The same, worked out anew."""
        found = [self._of_epochs(epochs, replicas, most, least) for epochs in self._epochs(replicas, most)]
        known = [schedule for schedule in found if schedule is not None]
        return min(known, key=lambda each: (each.iterations, each.epochs)) if known else None

    def schedule_of(self, samples: int, replicas: int) -> Schedule | None:
        """The fewest epochs that reach the loss with so many samples each; None if none do."""
        epochs = self._least_epochs(replicas, samples)
        return None if epochs is None else Schedule(epochs, samples, math.ceil(samples / self.batch))

    def least_loss(self, iterations: int, replicas: int, most: int) -> float:
        """The least loss that so many iterations can reach."""
        fullest = math.ceil(most / self.batch)
        best = math.inf
        for many in _counting(1, min(fullest, iterations)):
            for each in {many, max(1, min(fullest, iterations // many))}:
                fraction = min(most, each * self.batch) / self.samples
                best = min(best, self.learning.loss(max(1, iterations // each), fraction, replicas))
        return best

    def _epochs(self, replicas: int, most: int) -> Iterable[int]:
        """Numbers of epochs that can matter: the least for each number of iterations an epoch."""
        fullest = math.ceil(most / self.batch)
        tried = {self._least_epochs(replicas, min(most, many * self.batch)) for many in _counting(1, fullest)}
        fewest = self._least_epochs(replicas, most)
        if fullest > 2 * _TRIED and fewest is not None:  # some numbers of iterations were left out
            tried |= set(range(fewest, fewest + _TRIED))
        return sorted(epochs for epochs in tried if epochs is not None)

    def _least_epochs(self, replicas: int, samples: int) -> int | None:
        found = self.learning.least_epochs(self.loss, samples / self.samples, replicas)
        if not found <= MOST_EPOCHS:
            return None
        epochs = max(1, math.ceil(found * (1 - 1e-12)))
        reached = self._reached(epochs, samples, replicas)
        return epochs if reached else epochs + 1

    def _of_epochs(self, epochs: int, replicas: int, most: int, least: int) -> Schedule | None:
        fraction = self.learning.least_fraction(self.loss, epochs, replicas)
        samples = max(least, math.ceil(min(fraction, 2.0) * self.samples * (1 - 1e-12)))
        if samples <= most and not self._reached(epochs, samples, replicas):
            samples += 1
        return Schedule(epochs, samples, math.ceil(samples / self.batch)) if samples <= most else None

    def _reached(self, epochs: int, samples: int, replicas: int) -> bool:
        return self.learning.loss(epochs, samples / self.samples, replicas) <= self.loss


@lru_cache(maxsize=256)
def _fewest(target: Target, replicas: int, most: int, least: int) -> Schedule | None:
    return target.fewest(replicas, most, least)


def _counting(first: int, last: int) -> Iterable[int]:
    """Whole numbers from the first to the last; where there are too many, the outermost."""
    if last - first <= 2 * _TRIED:
        return range(first, last + 1)
    return [*range(first, first + _TRIED), *range(last - _TRIED, last + 1)]
