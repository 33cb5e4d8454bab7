"""What curves teach: moments of real trainings, and how the loss changed after each.

A curve of K epochs has K moments with epochs to come. Curves that begin alike share moments; each counts once, with as
many epochs to come as any curve knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from palmette.predict.forecast import Past, Setting
from palmette.spec.curves import Curve, Stretch

HORIZON = 5  # epochs that λ_run is asked for at once


@dataclass(frozen=True)
class Run:
    """A moment of a training, and the changes of the loss in the next epochs, at most ``HORIZON``."""

    past: Past
    changes: tuple[float, ...]


@dataclass(frozen=True)
class Change:
    """A moment at which the setting changed, what to, and by how much that changed the loss."""

    past: Past
    to: Setting
    change: float


def setting_of(stretch: Stretch) -> Setting:
    """The setting of a phase of a curve."""
    return Setting(pruning=stretch.pruning, samples=stretch.samples, classes=stretch.classes)


def runs(curves: Iterable[Curve]) -> list[Run]:
    """Every moment with epochs to come, once."""
    found: dict[Past, tuple[float, ...]] = {}
    for curve in curves:
        for begun, stretch in _begun(curve):
            losses = (stretch.start_loss, *stretch.losses)
            changes = [after - before for before, after in pairwise(losses)]
            for seen in range(1, len(losses)):
                past = begun.trained(*losses[1:seen])
                ahead = tuple(changes[seen - 1 : seen - 1 + HORIZON])
                found[past] = max(found.get(past, ()), ahead, key=len)
    return [Run(past, changes) for past, changes in found.items()]


def changes(curves: Iterable[Curve]) -> list[Change]:
    """Every change of setting, once."""
    found: dict[Change, None] = {}
    for curve in curves:
        for (begun, before), (_, after) in pairwise(_begun(curve)):
            past = begun.trained(*before.losses)
            found[Change(past, setting_of(after), after.start_loss - past.loss)] = None
    return list(found)


def _begun(curve: Curve) -> Iterator[tuple[Past, Stretch]]:
    """Each phase, and the past at its start."""
    before: tuple[float, ...] = ()
    for stretch in curve.phases:
        yield Past(setting=setting_of(stretch), losses=(stretch.start_loss,), before=before), stretch
        before = (*before, stretch.start_loss, *stretch.losses)


def split(curves: Sequence[Curve], share: float = 0.25) -> tuple[list[Curve], list[Curve]]:
    """Curves to learn from, and curves to be judged by: those of the last seeds, so that no beginning is on both sides.

    At least one seed is on either side where there are two.
    """
    seeds = sorted({curve.seed for curve in curves})
    many = min(len(seeds) - 1, max(1, round(len(seeds) * share))) if seeds else 0
    judges = set(seeds[len(seeds) - many :])
    return [c for c in curves if c.seed not in judges], [c for c in curves if c.seed in judges]
