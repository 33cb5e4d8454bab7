"""The two networks of Fig. 3 of PACT, small enough to be trained in a minute on one core.

    (a) λ_run
        samples, classes, pruning ──── FC ──┐
                                            ├── FC ── FC ── 5 × (expected, low, robust, total_robust)
        losses so far ─────────────── LSTM ─┘

    (b) λ_change
        pruning, classes, samples, ── FC ── FC ── FC ── (expected, low, robust)
        the last 5 losses

Each change is told by the expected one and how far below and above it the 0.05 and the 0.95 quantile lie, so that the
three are always in order; and in (a) by how far the 0.95 quantile of the change up to there lies above the expected
ones' sum, which PACT does not have. What goes in and comes out is standardised by the training data's means and
deviations, which are buffers and so travel with the weights. The LSTM reads two numbers a loss: the loss, and whether
it belongs to the present setting. λ_change is told the settings before and after; PACT tells it the pruning alone, but
where the new nodes' data has other classes the loss changes for that too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from palmette.predict.examples import HORIZON
from palmette.predict.forecast import Past, Setting

WINDOW = 40  # losses that the LSTM looks back to
LATEST = 5  # losses before a change that λ_change is told
HIDDEN = 32
_RUN_TOLD, _CHANGE_TOLD = 4, 3  # numbers a change
_STATIC, _SEQUENCE, _CHANGE = 3, 2, 7 + LATEST


class Standard(nn.Module):
    """Numbers to mean 0 and deviation 1."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, many: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(many))
        self.register_buffer("deviation", torch.ones(many))

    def fit(self, rows: Tensor) -> None:
        """Take the means and deviations of rows of numbers; what never varies is only shifted."""
        deviation, mean = torch.std_mean(rows, dim=0, correction=0)
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation)))

    def forward(self, values: Tensor) -> Tensor:
        """Standardise."""
        return (values - self.mean) / self.deviation

    def back(self, values: Tensor) -> Tensor:
        """The numbers that were standardised."""
        return values * self.deviation + self.mean


class RunNetwork(nn.Module):
    """λ_run: the next ``HORIZON`` changes, from the setting and the losses so far."""

    def __init__(self) -> None:
        super().__init__()
        self.setting = Standard(_STATIC)
        self.branch = nn.Sequential(nn.Linear(_STATIC, HIDDEN // 2), nn.ReLU())
        self.sequence = Standard(_SEQUENCE)
        self.lstm = nn.LSTM(_SEQUENCE, HIDDEN, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(HIDDEN + HIDDEN // 2, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HORIZON * _RUN_TOLD)
        )
        self.changes = Standard(1)

    def forward(self, static: Tensor, sequence: Tensor, lengths: Tensor) -> Tensor:
        """Batch × HORIZON × (expected, low, robust, total_robust)."""
        outputs, _ = self.lstm(self.sequence(sequence))
        last = outputs[torch.arange(len(lengths)), lengths - 1]
        told = self.head(torch.cat([self.branch(self.setting(static)), last], dim=1))
        expected, *widths = told.view(-1, HORIZON, _RUN_TOLD).unbind(dim=-1)
        expected = self.changes.back(expected)
        below, above, total = (softplus(width) * self.changes.deviation for width in widths)
        return torch.stack([expected, expected - below, expected + above, expected.cumsum(dim=1) + total], dim=-1)


class ChangeNetwork(nn.Module):
    """λ_change: the one change, from the settings and the losses before it."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = Standard(_CHANGE)
        self.body = nn.Sequential(
            nn.Linear(_CHANGE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, _CHANGE_TOLD)
        )
        self.changes = Standard(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Batch × 1 × (expected, low, robust)."""
        expected, *widths = self.body(self.inputs(inputs))[:, None].unbind(dim=-1)
        expected = self.changes.back(expected)
        below, above = (softplus(width) * self.changes.deviation for width in widths)
        return torch.stack([expected, expected - below, expected + above], dim=-1)


def run_inputs(pasts: Sequence[Past]) -> tuple[Tensor, Tensor, Tensor]:
    """What λ_run is told: static features, sequences filled up with 0, and their lengths."""
    static = torch.tensor([_features(past.setting) for past in pasts])
    sequences = [_sequence(past) for past in pasts]
    filled = nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    return static, filled, torch.tensor([len(each) for each in sequences])


def change_inputs(moments: Sequence[tuple[Past, Setting]]) -> Tensor:
    """What λ_change is told, a row a moment: the settings, the fraction of the rest that goes, the last losses."""
    return torch.tensor([_change_features(past, to) for past, to in moments])


def _features(setting: Setting) -> list[float]:
    return [math.log(setting.samples), float(setting.classes), setting.pruning]


def _sequence(past: Past) -> Tensor:
    rows = [(loss, 0.0) for loss in past.before] + [(loss, 1.0) for loss in past.losses]
    return torch.tensor(rows[-WINDOW:])


def _change_features(past: Past, to: Setting) -> list[float]:
    rest = 1 - (1 - to.pruning) / (1 - past.setting.pruning)
    losses = list(past.losses[-LATEST:])
    return [*_features(past.setting), *_features(to), rest, *[losses[0]] * (LATEST - len(losses)), *losses]
