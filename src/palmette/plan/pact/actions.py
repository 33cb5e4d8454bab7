"""What can be done in an epoch: keep model and nodes or change them first, then train; and its costs.

An **action** is all of an epoch: the change, if there is one, and the run after it. Its time and energy do not depend
on when it is taken, its change of the loss does: row k of the losses holds that of every action as epoch k + 1 of the
training, the last row repeating.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from palmette.spec.problem import Change, Pair, Problem, Run

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Kind = Literal["expected", "robust", "true"]

TOLERANCE = 1e-9
"""Of rounding up, the target and the deadline."""


@dataclass(frozen=True)
class EpochActions:
    """Every action of a problem: from which pair to which, its joules and seconds, and its change of the loss.

    ``switch_margin`` is how far the robust estimate of a switch alone is above the expected one; 0 where there is none.
    """

    pairs: tuple[Pair, ...]
    from_pair: Ints
    to_pair: Ints
    energy_j: Floats
    time_s: Floats
    expected: Floats
    robust: Floats
    true: Floats
    switch_margin: Floats
    compress: tuple[str, ...]
    """How each action makes the model smaller, if it does."""
    outgoing: tuple[tuple[int, ...], ...]
    """The actions from each pair; staying comes first."""
    floor: float = -math.inf
    """The least loss that is possible."""

    def model(self, pair: int) -> str:
        """The model of a pair."""
        return self.pairs[pair][0]

    def stay(self, pair: int) -> int | None:
        """The action that changes nothing, if the pair can be trained at all."""
        return next((action for action in self.outgoing[pair] if self.to_pair[action] == pair), None)

    def row(self, epochs: int) -> int:
        """The row of the losses that holds after so many epochs."""
        return min(epochs, len(self.true) - 1)

    def blend(self, expected_weight: float) -> Floats:
        """Estimates between the robust (0) and the expected ones (1) of epochs; those of switches stay robust.

        So a switch has to pay for itself by more than its own uncertainty, however bold the rest is.
        """
        return self.robust + expected_weight * (self.expected - self.robust + self.switch_margin)


def actions_of(problem: Problem) -> EpochActions:
    """The actions that a problem allows."""
    start = (problem.start.model, problem.start.nodes)
    pairs = tuple(dict.fromkeys([start, *(run.pair for run in problem.run)]))
    number = {pair: k for k, pair in enumerate(pairs)}
    runs = {run.pair: run for run in problem.run}
    edges: list[tuple[int, int, Run, Change | None]] = [
        (number[run.pair], number[run.pair], run, None) for run in runs.values()
    ]
    edges += [
        (number[change.from_], number[change.to], runs[change.to], change)
        for change in problem.change
        if change.from_ in number
    ]
    from_pair, to_pair = ([edge[side] for edge in edges] for side in (0, 1))
    epochs = max(len(losses) for run in problem.run for kind in _KINDS if (losses := _run_losses(run, kind)))
    expected, robust, true = (_losses(edges, kind, epochs) for kind in _KINDS)
    return EpochActions(
        pairs=pairs,
        from_pair=np.array(from_pair),
        to_pair=np.array(to_pair),
        energy_j=np.array([run.energy_j + (change.energy_j if change else 0.0) for *_, run, change in edges]),
        time_s=np.array([run.time_s + (change.time_s if change else 0.0) for *_, run, change in edges]),
        expected=expected,
        robust=robust,
        true=true,
        switch_margin=np.array([_switch_margin(change) for *_, change in edges]),
        compress=tuple("prune" if change is None else change.compress for *_, change in edges),
        outgoing=tuple(tuple(a for a in range(len(edges)) if from_pair[a] == pair) for pair in range(len(pairs))),
        floor=-math.inf if problem.loss_floor is None else problem.loss_floor,
    )


_KINDS: tuple[Kind, ...] = ("expected", "robust", "true")


def _losses(edges: list[tuple[int, int, Run, Change | None]], kind: Kind, epochs: int) -> Floats:
    return np.array(
        [_run(run, kind, epochs) + (_change(change, kind) if change else 0.0) for *_, run, change in edges]
    ).T


def _run(run: Run, kind: Kind, epochs: int) -> Floats:
    losses = _run_losses(run, kind)
    return np.array(losses + losses[-1:] * (epochs - len(losses)))


def _run_losses(run: Run, kind: Kind) -> tuple[float, ...]:
    given: tuple[float, ...] | None = getattr(run, f"loss_{kind}")
    return run.loss_expected if given is None else given


def _switch_margin(change: Change | None) -> float:
    return 0.0 if change is None else max(0.0, change.loss_robust - change.loss_expected)


def _change(change: Change, kind: Kind) -> float:
    given: float | None = getattr(change, f"loss_{kind}")
    return change.loss_expected if given is None else given
