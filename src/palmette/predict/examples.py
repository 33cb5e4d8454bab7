"""Training examples from curves: moments of real trainings, and how the loss changed after each.

A curve of K epochs has K moments with epochs to come. Curves that share a beginning share moments; each counts once,
with as many epochs to come as any curve has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from palmette.predict.forecast import History, Setting
from palmette.spec.curves import Curve, CurvePhase

HORIZON = 5  # epochs that λ_run predicts at once


@dataclass(frozen=True)
class RunExample:
    """A moment of a training, and the changes of the loss in the next epochs, at most ``HORIZON``."""

    history: History
    changes: tuple[float, ...]


@dataclass(frozen=True)
class ChangeExample:
    """A moment at which the setting changed, the new setting, and by how much that changed the loss."""

    history: History
    to: Setting
    change: float


def setting_of(phase: CurvePhase) -> Setting:
    """The setting of a phase of a curve."""
    return Setting(pruning=phase.pruning, samples=phase.samples, classes=phase.classes)


def run_examples(curves: Iterable[Curve]) -> list[RunExample]:
    """Every moment with epochs to come, once."""
    found: dict[History, tuple[float, ...]] = {}
    for curve in curves:
        for start, phase in _phase_starts(curve):
            losses = (phase.start_loss, *phase.losses)
            changes = [after - before for before, after in pairwise(losses)]
            for seen in range(1, len(losses)):
                history = start.extended(*losses[1:seen])
                ahead = tuple(changes[seen - 1 : seen - 1 + HORIZON])
                found[history] = max(found.get(history, ()), ahead, key=len)
    return [RunExample(history, changes) for history, changes in found.items()]


def change_examples(curves: Iterable[Curve]) -> list[ChangeExample]:
    """Every change of setting, once."""
    found: dict[ChangeExample, None] = {}
    for curve in curves:
        for (start, before), (_, after) in pairwise(_phase_starts(curve)):
            history = start.extended(*before.losses)
            found[ChangeExample(history, setting_of(after), after.start_loss - history.loss)] = None
    return list(found)


def _phase_starts(curve: Curve) -> Iterator[tuple[History, CurvePhase]]:
    """Each phase, and the history at its start."""
    earlier: tuple[float, ...] = ()
    for phase in curve.phases:
        yield History(setting=setting_of(phase), losses=(phase.start_loss,), earlier=earlier), phase
        earlier = (*earlier, phase.start_loss, *phase.losses)


def split_by_seed(curves: Sequence[Curve], share: float = 0.25) -> tuple[list[Curve], list[Curve]]:
    """Curves to train on, and those of the last seeds, held out for evaluation: no beginning is on both sides.

    At least one seed is on either side where there are two.
    """
    seeds = sorted({curve.seed for curve in curves})
    count = min(len(seeds) - 1, max(1, round(len(seeds) * share))) if seeds else 0
    held_out = set(seeds[len(seeds) - count :])
    return [c for c in curves if c.seed not in held_out], [c for c in curves if c.seed in held_out]
