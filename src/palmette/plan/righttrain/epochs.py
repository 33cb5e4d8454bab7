"""How long to train: the epochs and the samples that reach a loss in the fewest iterations.

An iteration costs the same whatever the number of epochs, so that for a given number of replicas and a given split of
the batch the fewest iterations, epochs × ⌈samples per epoch / batch⌉, are best for time and for energy alike. For each
number of iterations per epoch the least epochs are taken, and for these the least samples that reach the loss. An epoch
uses no smaller fraction of the data than the runs did that the curve was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from palmette.plan.righttrain.data_amounts import Split
from palmette.spec.learning import Learning

Floats = np.ndarray[Any, np.dtype[np.float64]]
MAX_EPOCHS = 10**12
_TRIED = 4_000  # beyond these, one more epoch or iteration per epoch changes their product by less than 0.03%


@dataclass(frozen=True)
class Schedule:
    """Epochs, samples per epoch over all sources in use, iterations per epoch, and the data of each feed in use."""

    epochs: int
    samples: int
    epoch_iterations: int
    split: Split = ()
    """Samples of a batch from each feed."""
    amounts: tuple[int, ...] = ()
    """Samples of an epoch from each feed."""

    @property
    def iterations(self) -> int:
        """Iterations of the whole training."""
        return self.epochs * self.epoch_iterations


@dataclass(frozen=True)
class LossTarget:
    """A loss to reach, by a learning curve, with ``samples`` in all and a batch size.

    ``worth`` is what a sample in use counts, in the mean, where one of all data counts 1.
    """

    learning: Learning
    loss: float
    samples: int
    batch: int
    _schedules: dict[tuple[int, int, int, float], Schedule | None] = field(default_factory=dict, compare=False)

    def schedule(self, replicas: int, max_samples: int, min_samples: int = 1, worth: float = 1.0) -> Schedule | None:
        """The fewest iterations that reach the loss with at most ``max_samples`` per epoch; None if none do."""
        key = (replicas, max_samples, min_samples, worth)
        if key not in self._schedules:
            self._schedules[key] = self._find_schedule(*key)
        return self._schedules[key]

    def _find_schedule(self, replicas: int, max_samples: int, min_samples: int, worth: float) -> Schedule | None:
        found = [
            self._schedule_of_epochs(epochs, replicas, max_samples, min_samples, worth)
            for epochs in self._epoch_choices(replicas, max_samples, worth)
        ]
        known = [schedule for schedule in found if schedule is not None]
        return min(known, key=lambda each: (each.iterations, each.epochs)) if known else None

    def schedule_for(self, samples: int, replicas: int, worth: float = 1.0) -> Schedule | None:
        """The fewest epochs of so many samples that reach the loss; None if none do."""
        epochs = self._least_epochs(replicas, samples, worth)
        return None if epochs is None else Schedule(epochs, samples, math.ceil(samples / self.batch))

    def least_loss(self, iterations: int, replicas: int, max_samples: int, worth: float = 1.0) -> float:
        """The least loss that so many iterations can reach."""
        max_per_epoch = math.ceil(max_samples / self.batch)
        best = math.inf
        for per_epoch in _sampled_range(1, min(max_per_epoch, iterations)):
            for each in {per_epoch, max(1, min(max_per_epoch, iterations // per_epoch))}:
                fraction = worth * min(max_samples, each * self.batch) / self.samples
                best = min(best, self.learning.loss(max(1, iterations // each), fraction, replicas))
        return best

    def reached(self, epochs: int, samples: int, replicas: int, worth: float = 1.0) -> bool:
        """Whether so many epochs of so many samples reach the loss."""
        return self.learning.loss(epochs, worth * samples / self.samples, replicas) <= self.loss

    def _least_samples(self, worth: float) -> int:
        """The samples of the least fraction of the data that the curve knows."""
        return math.ceil(self.learning.least_fraction_tried * self.samples / worth * (1 - 1e-12))

    def _epoch_choices(self, replicas: int, max_samples: int, worth: float) -> Iterable[int]:
        """Numbers of epochs that can be optimal: around the least for the best numbers of iterations per epoch."""
        max_per_epoch = math.ceil(max_samples / self.batch)
        per_epoch = np.array(_sampled_range(1, max_per_epoch), dtype=np.float64)
        samples = np.minimum(per_epoch * self.batch, max_samples)
        epochs = self._least_epochs_each(replicas, worth * samples / self.samples)
        possible = (epochs <= MAX_EPOCHS) & (samples >= self._least_samples(worth))
        iterations = np.where(possible, epochs * per_epoch, np.inf)
        best = iterations.min(initial=np.inf)
        near = possible & (iterations <= best + 2 * per_epoch)  # rounding may ask for one epoch more
        tried = {max(1, int(each)) for each in epochs[near]}
        fewest = self._least_epochs(replicas, max_samples, worth)
        if max_per_epoch > 2 * _TRIED and fewest is not None:  # some numbers of iterations were skipped
            most = self._least_epochs(replicas, max(1, self._least_samples(worth)), worth)
            tried |= set(range(fewest, fewest + _TRIED)) | ({most} if most is not None else set())
        return sorted(tried | {each + 1 for each in tried})

    def _least_epochs_each(self, replicas: int, fractions: Floats) -> Floats:
        """About the least epochs for each fraction of the data, infinite where there are none."""
        if self.learning.epoch_exponent == 0:
            found = [self.learning.least_epochs(self.loss, fraction, replicas) for fraction in fractions.tolist()]
            return np.array(found)
        start, slope = self.learning.log_epochs(self.loss, replicas)
        known = np.minimum(fractions, self.learning.most_data)
        powers = start - slope * np.log(known) - min(slope, 1.0) * np.log(fractions / known)
        return np.asarray(np.ceil(np.maximum(1.0, np.exp(np.minimum(powers, 700.0))) * (1 - 1e-12)), dtype=np.float64)

    def _least_epochs(self, replicas: int, samples: int, worth: float) -> int | None:
        found = self.learning.least_epochs(self.loss, worth * samples / self.samples, replicas)
        if not found <= MAX_EPOCHS:
            return None
        epochs = max(1, math.ceil(found * (1 - 1e-12)))
        return epochs if self.reached(epochs, samples, replicas, worth) else epochs + 1

    def _schedule_of_epochs(
        self, epochs: int, replicas: int, max_samples: int, min_samples: int, worth: float
    ) -> Schedule | None:
        fraction = self.learning.least_fraction(self.loss, epochs, replicas) / worth
        needed = math.ceil(min(fraction, 2.0) * self.samples * (1 - 1e-12))
        samples = max(min_samples, needed, self._least_samples(worth))
        if samples <= max_samples and not self.reached(epochs, samples, replicas, worth):
            samples += 1
        return Schedule(epochs, samples, math.ceil(samples / self.batch)) if samples <= max_samples else None


def _sampled_range(first: int, last: int) -> Sequence[int]:
    """Integers from the first to the last; where there are too many, only those near both ends."""
    if last - first <= 2 * _TRIED:
        return range(first, last + 1)
    return [*range(first, first + _TRIED), *range(last - _TRIED, last + 1)]
