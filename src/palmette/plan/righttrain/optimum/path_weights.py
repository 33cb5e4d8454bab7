"""How the price of a second is split over the paths through an iteration: their weights, and a mirror step on them.

A path goes from a feed to the loss and back: either to a feed, where it waits for the average of the first layer's
gradients and may continue with any of their replicas, or to the exchange of a group's gradients further up (an exit),
where it ends. Weights add up to 1; a mirror step multiplies that of each path by the exponential of its length.

    forward        backward, of the same root       after
    feed d   ──→   feed b            ───────────→   feed a
             ──→   exit x
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from palmette.plan.righttrain.problem import Floats

Ints = np.ndarray[Any, np.dtype[np.int64]]
_MIN_WEIGHT = 1e-9
"""No weight vanishes for good."""
_INITIAL_EXIT_WEIGHT = 0.1
_MAX_EXPONENT = 1.5


@dataclass(frozen=True)
class PathEnds:
    """Where paths may begin and end: the root of each feed and of each exit."""

    feed_roots: Ints
    exit_roots: Ints
    roots: int
    averages_first_layer: bool
    """Whether replicas of the first layer wait for each other."""

    def uniform(self) -> PathWeights:
        """Equal weights for all feeds, and a little for exits."""
        feeds = len(self.feed_roots)
        forward = np.full(feeds, 1 / feeds)
        root_weights = np.bincount(self.feed_roots, forward, self.roots)
        many = np.bincount(self.exit_roots, minlength=self.roots)
        exits = (_INITIAL_EXIT_WEIGHT * root_weights / np.maximum(many, 1))[self.exit_roots]
        left = 1 - np.where(many > 0, _INITIAL_EXIT_WEIGHT, 0.0)
        backward = forward * left[self.feed_roots]
        return PathWeights(forward, backward, exits, backward.copy())


@dataclass(frozen=True)
class PathWeights:
    """Weights by feed of the forward, backward and later parts of paths; by exit of those that end there."""

    forward: Floats
    backward: Floats
    exits: Floats
    after: Floats
    """Their sum is that of ``backward``."""


@dataclass(frozen=True)
class PathLengths:
    """Lengths of the parts of paths, in seconds; fields as in ``PathWeights``."""

    forward: Floats
    backward: Floats
    exits: Floats
    after: Floats

    def spread(self) -> float:
        """The largest difference of two paths."""
        ends = np.concatenate((self.backward + self.after.max(), self.exits))
        return float(np.ptp(self.forward) + np.ptp(ends) + np.ptp(self.after))


def moments(ends: PathEnds, weights: PathWeights, lengths: PathLengths) -> tuple[float, float]:
    """Mean and variance of the length of a path drawn by its weight."""
    root_weights = np.maximum(_by_root(ends, weights.forward), 1e-300)
    forward, forward_2 = (_by_root(ends, weights.forward * lengths.forward**n) / root_weights for n in (1, 2))
    share = weights.after / max(float(weights.after.sum()), 1e-300)
    after = float(share @ lengths.after)
    spread = float(share @ (lengths.after - after) ** 2)
    backward = lengths.backward + after
    backward_1 = _by_root(ends, weights.backward * backward) + _by_exit(ends, weights.exits * lengths.exits)
    backward_2 = _by_root(ends, weights.backward * (backward**2 + spread)) + _by_exit(
        ends, weights.exits * lengths.exits**2
    )
    backward_1, backward_2 = backward_1 / root_weights, backward_2 / root_weights
    mean = float(root_weights @ (forward + backward_1))
    square = float(root_weights @ (forward_2 - forward**2 + backward_2 - backward_1**2 + (forward + backward_1) ** 2))
    return mean, max(0.0, square - mean**2)


def mirror_step(ends: PathEnds, weights: PathWeights, lengths: PathLengths, step: float) -> PathWeights:
    """The weights after a mirror step: more on longer paths."""
    step = min(step, _MAX_EXPONENT / max(lengths.spread(), 1e-300))
    forward = weights.forward * _growth(lengths.forward, step)
    after = (
        weights.after / max(float(weights.after.sum()), 1e-300) * np.exp(step * (lengths.after - lengths.after.max()))
    )
    top = max(float((lengths.backward + lengths.after.max()).max()), float(lengths.exits.max(initial=-np.inf)))
    backward = weights.backward * np.exp(step * (lengths.backward + lengths.after.max() - top)) * after.sum()
    exits = weights.exits * np.exp(step * (lengths.exits - top))
    forward, backward, exits = (np.maximum(each, _MIN_WEIGHT) for each in (forward, backward, exits))
    root_forward, root_backward = _by_root(ends, forward), _by_root(ends, backward) + _by_exit(ends, exits)
    root_weights = root_forward * root_backward / np.maximum(_by_root(ends, weights.forward), 1e-300)
    root_weights /= root_weights.sum()
    backward = backward * (root_weights / root_backward)[ends.feed_roots]
    after = np.maximum(after, _MIN_WEIGHT)
    return PathWeights(
        forward * (root_weights / root_forward)[ends.feed_roots],
        backward,
        exits * (root_weights / root_backward)[ends.exit_roots],
        after * (backward.sum() / after.sum()) if ends.averages_first_layer else backward,
    )


def _growth(lengths: Floats, step: float) -> Floats:
    return np.asarray(np.exp(step * (lengths - lengths.max())), dtype=np.float64)


def _by_root(ends: PathEnds, values: Floats) -> Floats:
    return _summed(ends.feed_roots, values, ends.roots)


def _by_exit(ends: PathEnds, values: Floats) -> Floats:
    return _summed(ends.exit_roots, values, ends.roots)


def _summed(places: Ints, values: Floats, many: int) -> Floats:
    return np.bincount(places, values, many).astype(np.float64)
