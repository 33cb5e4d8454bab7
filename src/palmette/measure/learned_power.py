"""Idle and busy watts of a node, fitted to what its meter measured in runs and to how long it computed in them.

A run of ``seconds`` in which a node computed for ``computing_s`` with its whole CPU uses

    joules = idle_w · (seconds − computing_s) + busy_w · computing_s

Runs that differ in how busy the node was tell both; where they do not, the idle watts have to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palmette.errors import Fault, InputError
from palmette.spec.cluster import Power

LEAST_SPREAD = 0.1
"""How much the fractions of the time in which a node computed have to differ to tell idle and busy apart."""


class MeteredRun(NamedTuple):
    """What a node's meter measured in a run, and how long the node computed; seconds of the wall clock."""

    seconds: float
    computing_s: float
    joules: float

    @property
    def busy_fraction(self) -> float:
        """Of the time, how much the node computed."""
        return self.computing_s / self.seconds


def fit_power(node: str, runs: Sequence[MeteredRun], declared: Power | None) -> tuple[Power, bool]:
    """Watts of a node by its runs, and whether the idle ones are fitted, too, and not those that were declared.

    Raises:
        InputError: idle watts are needed and not declared, or no watts explain the joules.
    """
    busy = [run.busy_fraction for run in runs]
    if max(busy) - min(busy) >= LEAST_SPREAD:
        rows = np.array([[1 - each, each] for each in busy])
        watts = np.array([run.joules / run.seconds for run in runs])
        (idle_w, busy_w), *_ = np.linalg.lstsq(rows, watts)
        fitted = True
    elif declared is None:
        expected = "runs in which it is about as busy do not tell idle from busy; expected power: in the cluster file"
        raise InputError(Fault(f"nodes.{node}.power", "missing", expected))
    else:
        idle_w, fitted = declared.idle_w, False
        joules = sum(run.joules - idle_w * (run.seconds - run.computing_s) for run in runs)
        busy_w = joules / sum(run.computing_s for run in runs)
    if not 0 <= idle_w <= busy_w:
        found = f"{idle_w:.3g} W idle, {busy_w:.3g} W busy"
        raise InputError(
            Fault(f"nodes.{node}.power", found, "no node draws that; expected other runs, or another meter")
        )
    exponent = 1.0 if declared is None else declared.exponent
    return Power(idle_w=float(idle_w), busy_w=float(busy_w), exponent=exponent), fitted
