"""How long to train: the epochs and the samples that reach a loss in the fewest iterations.

An iteration costs the same whatever the number of epochs, so that for a given number of replicas the fewest
iterations, epochs × ⌈samples per epoch / batch⌉, are best for time and for energy alike. For each number of epochs the
least samples that reach the loss are taken, and for each number of iterations per epoch the least epochs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from palmette.spec.learning import Learning

MAX_EPOCHS = 10**12
_TRIED = 4_000  # beyond these, one more epoch or iteration per epoch changes their product by less than 0.03%


@dataclass(frozen=True)
class Schedule:
    """Epochs, samples per epoch over all sources in use, and iterations per epoch."""

    epochs: int
    samples: int
    epoch_iterations: int

    @property
    def iterations(self) -> int:
        """Iterations of the whole training."""
        return self.epochs * self.epoch_iterations


@dataclass(frozen=True)
class LossTarget:
    """A loss to reach, by a learning curve, with ``samples`` in all and a batch size."""

    learning: Learning
    loss: float
    samples: int
    batch: int

    def schedule(self, replicas: int, max_samples: int, min_samples: int = 1) -> Schedule | None:
        """The fewest iterations that reach the loss with at most ``max_samples`` per epoch; None if none do."""
        return _cached_schedule(self, replicas, max_samples, min_samples)

    def find_schedule(self, replicas: int, max_samples: int, min_samples: int) -> Schedule | None:
        """The same, not cached."""
        found = [
            self._schedule_of_epochs(epochs, replicas, max_samples, min_samples)
            for epochs in self._epoch_choices(replicas, max_samples)
        ]
        known = [schedule for schedule in found if schedule is not None]
        return min(known, key=lambda each: (each.iterations, each.epochs)) if known else None

    def schedule_for(self, samples: int, replicas: int) -> Schedule | None:
        """The fewest epochs of so many samples that reach the loss; None if none do."""
        epochs = self._least_epochs(replicas, samples)
        return None if epochs is None else Schedule(epochs, samples, math.ceil(samples / self.batch))

    def least_loss(self, iterations: int, replicas: int, max_samples: int) -> float:
        """The least loss that so many iterations can reach."""
        max_per_epoch = math.ceil(max_samples / self.batch)
        best = math.inf
        for per_epoch in _sampled_range(1, min(max_per_epoch, iterations)):
            for each in {per_epoch, max(1, min(max_per_epoch, iterations // per_epoch))}:
                fraction = min(max_samples, each * self.batch) / self.samples
                best = min(best, self.learning.loss(max(1, iterations // each), fraction, replicas))
        return best

    def _epoch_choices(self, replicas: int, max_samples: int) -> Iterable[int]:
        """Numbers of epochs that can be optimal: the least for each number of iterations per epoch."""
        max_per_epoch = math.ceil(max_samples / self.batch)
        tried = {
            self._least_epochs(replicas, min(max_samples, per_epoch * self.batch))
            for per_epoch in _sampled_range(1, max_per_epoch)
        }
        fewest = self._least_epochs(replicas, max_samples)
        if max_per_epoch > 2 * _TRIED and fewest is not None:  # some numbers of iterations were skipped
            tried |= set(range(fewest, fewest + _TRIED))
        return sorted(epochs for epochs in tried if epochs is not None)

    def _least_epochs(self, replicas: int, samples: int) -> int | None:
        found = self.learning.least_epochs(self.loss, samples / self.samples, replicas)
        if not found <= MAX_EPOCHS:
            return None
        epochs = max(1, math.ceil(found * (1 - 1e-12)))
        reached = self._reached(epochs, samples, replicas)
        return epochs if reached else epochs + 1

    def _schedule_of_epochs(self, epochs: int, replicas: int, max_samples: int, min_samples: int) -> Schedule | None:
        fraction = self.learning.least_fraction(self.loss, epochs, replicas)
        samples = max(min_samples, math.ceil(min(fraction, 2.0) * self.samples * (1 - 1e-12)))
        if samples <= max_samples and not self._reached(epochs, samples, replicas):
            samples += 1
        return Schedule(epochs, samples, math.ceil(samples / self.batch)) if samples <= max_samples else None

    def _reached(self, epochs: int, samples: int, replicas: int) -> bool:
        return self.learning.loss(epochs, samples / self.samples, replicas) <= self.loss


@lru_cache(maxsize=256)
def _cached_schedule(target: LossTarget, replicas: int, max_samples: int, min_samples: int) -> Schedule | None:
    return target.find_schedule(replicas, max_samples, min_samples)


def _sampled_range(first: int, last: int) -> Iterable[int]:
    """Integers from the first to the last; where there are too many, only those near both ends."""
    if last - first <= 2 * _TRIED:
        return range(first, last + 1)
    return [*range(first, first + _TRIED), *range(last - _TRIED, last + 1)]
