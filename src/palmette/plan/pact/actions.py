"""What can be done in an epoch: stay, or change model and nodes first; then run. And what comes of it.

A **move** is the whole action of an epoch: the change, if there is one, and the run after it. Its time and energy do
not depend on when it is made, its change of the loss does: ``loss[k]`` holds that of every move as epoch k + 1 of the
training, the last row repeating.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from palmette.spec.problem import Change, Pair, Problem, Run

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Kind = Literal["expected", "robust", "true"]

FORGIVEN = 1e-9
"""What rounding up, the target and the deadline forgive."""


@dataclass(frozen=True)
class Moves:
    """Every move of a problem: from which pair to which, its joules and seconds, and its change of the loss."""

    pairs: tuple[Pair, ...]
    here: Ints
    there: Ints
    energy_j: Floats
    time_s: Floats
    expected: Floats
    robust: Floats
    true: Floats
    out: tuple[tuple[int, ...], ...]
    """The moves from each pair; to stay comes first."""

    def model(self, pair: int) -> str:
        """The model of a pair."""
        return self.pairs[pair][0]

    def row(self, epochs: int) -> int:
        """The row of the losses that holds after so many epochs."""
        return min(epochs, len(self.true) - 1)

    def blend(self, trust: float) -> Floats:
        """Estimates between the robust (0) and the expected ones (1)."""
        return self.robust + trust * (self.expected - self.robust)


def moves_of(problem: Problem) -> Moves:
    """The moves that a problem allows."""
    start = (problem.start.model, problem.start.nodes)
    pairs = tuple(dict.fromkeys([start, *(run.pair for run in problem.run)]))
    number = {pair: k for k, pair in enumerate(pairs)}
    runs = {run.pair: run for run in problem.run}
    made: list[tuple[int, int, Run, Change | None]] = [
        (number[run.pair], number[run.pair], run, None) for run in runs.values()
    ]
    made += [
        (number[change.from_], number[change.to], runs[change.to], change)
        for change in problem.change
        if change.from_ in number
    ]
    here, there = ([move[side] for move in made] for side in (0, 1))
    epochs = max(len(losses) for run in problem.run for kind in _KINDS if (losses := _run_losses(run, kind)))
    expected, robust, true = (_losses(made, kind, epochs) for kind in _KINDS)
    return Moves(
        pairs=pairs,
        here=np.array(here),
        there=np.array(there),
        energy_j=np.array([run.energy_j + (change.energy_j if change else 0.0) for *_, run, change in made]),
        time_s=np.array([run.time_s + (change.time_s if change else 0.0) for *_, run, change in made]),
        expected=expected,
        robust=robust,
        true=true,
        out=tuple(tuple(a for a in range(len(made)) if here[a] == pair) for pair in range(len(pairs))),
    )


_KINDS: tuple[Kind, ...] = ("expected", "robust", "true")


def _losses(made: list[tuple[int, int, Run, Change | None]], kind: Kind, epochs: int) -> Floats:
    return np.array(
        [_run(run, kind, epochs) + (_change(change, kind) if change else 0.0) for *_, run, change in made]
    ).T


def _run(run: Run, kind: Kind, epochs: int) -> Floats:
    losses = _run_losses(run, kind)
    return np.array(losses + losses[-1:] * (epochs - len(losses)))


def _run_losses(run: Run, kind: Kind) -> tuple[float, ...]:
    given: tuple[float, ...] | None = getattr(run, f"loss_{kind}")
    return run.loss_expected if given is None else given


def _change(change: Change, kind: Kind) -> float:
    given: float | None = getattr(change, f"loss_{kind}")
    return change.loss_expected if given is None else given
