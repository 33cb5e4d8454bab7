"""Which samples (b_s, b_l) a row may choose: who takes part, a private source, and memory, as linear limits.

    least_s ≤ b_s ≤ most_s,  least_l ≤ b_l ≤ most_l,  least ≤ b_s + b_l ≤ most,  keeps_s·b_s + keeps_l·b_l ≥ relief

The last is worker_o's memory: samples whose first layers are computed elsewhere relieve it of their activations.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from palmette.plan.hiertrain.bounds import most_samples
from palmette.plan.hiertrain.pieces import Flags, Rows
from palmette.plan.hiertrain.problem import Floats, Ground, Ints


@dataclass(frozen=True, eq=False)
class Domain:
    """The limits of rows; see above."""

    least_s: Floats
    most_s: Floats
    least_l: Floats
    most_l: Floats
    least: Floats
    most: Floats
    keeps_s: Floats
    keeps_l: Floats
    relief: Floats

    def take(self, which: Ints | Flags) -> Domain:
        """The limits of some rows."""
        return Domain(*(getattr(self, field.name)[which] for field in fields(self)))

    def range_l(self) -> tuple[Floats, Floats]:
        """The least and the largest whole b_l for which there is a real b_s; crossed where there is none."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            by_s = np.where(self.keeps_l > 0, (self.relief - self.keeps_s * self.most_s) / self.keeps_l, -np.inf)
            apart, short = self.keeps_l - self.keeps_s, self.relief - self.keeps_s * self.most
            by_sum = np.where(apart > 0, short / apart, np.where(short > 0, np.inf, -np.inf))
        none = (self.keeps_l == 0) & (self.relief > 0) | (self.least_s > self.most_s) | (self.least > self.most)
        lows = [self.least_l, self.least - self.most_s, by_s, by_sum, np.where(none, np.inf, -np.inf)]
        highs = np.minimum(self.most_l, self.most - self.least_s)
        low = np.maximum.reduce(lows)
        return np.where(np.isfinite(low), np.ceil(low), self.most + 1), np.floor(highs)

    def range_s(self, b_l: Floats) -> tuple[Floats, Floats]:
        """The least and the largest real b_s beside a b_l of ``range_l``, [..., row]."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            by_memory = np.where(self.keeps_s > 0, (self.relief - self.keeps_l * b_l) / self.keeps_s, -np.inf)
        low = np.maximum(np.maximum(self.least_s, self.least - b_l), by_memory)
        return low, np.minimum(self.most_s, self.most - b_l)


def relaxed(ground: Ground, rows: Rows) -> Domain:
    """Limits that hold whoever takes part."""
    cap_o, cap_s, cap_l = most_samples(ground, rows)
    nothing, batch = np.zeros(len(rows)), np.full(len(rows), float(ground.batch))
    least = np.maximum(0.0, batch - cap_o)
    return Domain(nothing, cap_s, nothing, cap_l, least, batch, nothing, nothing, nothing)


def settled(ground: Ground, rows: Rows, taking: tuple[Flags, Flags, Flags]) -> Domain:
    """Limits of rows in which exactly those that are ``taking`` part have samples."""
    g, (t_o, t_s, t_l) = ground, taking
    cap_o, cap_s, cap_l = most_samples(ground, rows)
    batch, weights = float(g.batch), g.weight_bytes
    first = np.where(t_o, 0, np.where(t_s, rows.m_s, rows.m_l))
    room = g.memory_bytes[rows.o] - g.copies * (weights[g.depth] - weights[first])
    return Domain(
        least_s=np.where(t_s, 1.0, 0.0),
        most_s=np.where(t_s, cap_s, 0.0),
        least_l=np.where(t_l, 1.0, 0.0),
        most_l=np.where(t_l, cap_l, 0.0),
        least=np.where(t_o, batch - cap_o, batch),
        most=np.where(t_o, batch - 1.0, batch),
        keeps_s=g.kept_bytes[rows.m_s],
        keeps_l=g.kept_bytes[rows.m_l],
        relief=batch * g.kept_bytes[g.depth] - room,
    )
