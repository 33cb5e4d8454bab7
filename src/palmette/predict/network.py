"""The two networks of Fig. 3 of PACT, small enough to be trained in a minute on one core.

    (a) λ_run
        samples, classes, pruning ──── FC ──┐
                                            ├── FC ── FC ── 5 × (expected, low, robust, total_robust)
        losses so far ─────────────── LSTM ─┘

    (b) λ_change
        pruning, classes, samples, ── FC ── FC ── FC ── (expected, low, robust)
        the last 5 losses

Each change is predicted as the expected one and how far below and above it the 0.05 and the 0.95 quantile lie, so that
the three are always in order; and in (a) how far the 0.95 quantile of the change up to there lies above the sum of the
expected ones, which PACT does not have. Inputs and outputs are standardised by the training data's means and
deviations, which are buffers and so are saved with the weights. The LSTM reads two numbers per loss: the loss, and
whether it belongs to the current setting. λ_change gets the settings before and after; PACT gives it the pruning alone,
but where the new nodes' data has other classes the loss changes because of that too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from palmette.predict.examples import HORIZON
from palmette.predict.forecast import History, Setting

WINDOW = 40  # losses that the LSTM reads
LATEST = 5  # losses before a change that λ_change reads
HIDDEN = 32
_RUN_OUTPUTS, _CHANGE_OUTPUTS = 4, 3  # numbers per change
_STATIC, _SEQUENCE, _CHANGE = 3, 2, 7 + LATEST


class Standardizer(nn.Module):
    """Standardises numbers to mean 0 and deviation 1."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))

    def fit(self, rows: Tensor) -> None:
        """Set the means and deviations to those of rows of numbers; constant columns are only shifted."""
        deviation, mean = torch.std_mean(rows, dim=0, correction=0)
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > 1e-6, deviation, torch.ones_like(deviation)))

    def forward(self, values: Tensor) -> Tensor:
        """Standardise."""
        return (values - self.mean) / self.deviation

    def inverse(self, values: Tensor) -> Tensor:
        """Undo the standardisation."""
        return values * self.deviation + self.mean


class RunNetwork(nn.Module):
    """λ_run: the next ``HORIZON`` changes, from the setting and the losses so far."""

    def __init__(self) -> None:
        super().__init__()
        self.setting = Standardizer(_STATIC)
        self.branch = nn.Sequential(nn.Linear(_STATIC, HIDDEN // 2), nn.ReLU())
        self.sequence = Standardizer(_SEQUENCE)
        self.lstm = nn.LSTM(_SEQUENCE, HIDDEN, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(HIDDEN + HIDDEN // 2, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HORIZON * _RUN_OUTPUTS)
        )
        self.changes = Standardizer(1)

    def forward(self, static: Tensor, sequence: Tensor, lengths: Tensor) -> Tensor:
        """Batch × HORIZON × (expected, low, robust, total_robust)."""
        hidden, _ = self.lstm(self.sequence(sequence))
        last = hidden[torch.arange(len(lengths)), lengths - 1]
        outputs = self.head(torch.cat([self.branch(self.setting(static)), last], dim=1))
        expected, *widths = outputs.view(-1, HORIZON, _RUN_OUTPUTS).unbind(dim=-1)
        expected = self.changes.inverse(expected)
        below, above, total = (softplus(width) * self.changes.deviation for width in widths)
        return torch.stack([expected, expected - below, expected + above, expected.cumsum(dim=1) + total], dim=-1)


class ChangeNetwork(nn.Module):
    """λ_change: the one change, from the settings and the losses before it."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = Standardizer(_CHANGE)
        self.body = nn.Sequential(
            nn.Linear(_CHANGE, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, _CHANGE_OUTPUTS),
        )
        self.changes = Standardizer(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Batch × 1 × (expected, low, robust)."""
        expected, *widths = self.body(self.inputs(inputs))[:, None].unbind(dim=-1)
        expected = self.changes.inverse(expected)
        below, above = (softplus(width) * self.changes.deviation for width in widths)
        return torch.stack([expected, expected - below, expected + above], dim=-1)


def run_inputs(histories: Sequence[History]) -> tuple[Tensor, Tensor, Tensor]:
    """The inputs of λ_run: static features, sequences padded with 0, and their lengths."""
    static = torch.tensor([_features(history.setting) for history in histories])
    sequences = [_sequence(history) for history in histories]
    filled = nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    return static, filled, torch.tensor([len(each) for each in sequences])


def change_inputs(moments: Sequence[tuple[History, Setting]]) -> Tensor:
    """The inputs of λ_change, a row per moment: the settings, the fraction of the rest to remove, the last losses."""
    return torch.tensor([_change_features(history, to) for history, to in moments])


def _features(setting: Setting) -> list[float]:
    return [math.log(setting.samples), float(setting.classes), setting.pruning]


def _sequence(history: History) -> Tensor:
    rows = [(loss, 0.0) for loss in history.earlier] + [(loss, 1.0) for loss in history.losses]
    return torch.tensor(rows[-WINDOW:])


def _change_features(history: History, to: Setting) -> list[float]:
    rest = 1 - (1 - to.pruning) / (1 - history.setting.pruning)
    losses = list(history.losses[-LATEST:])
    return [*_features(history.setting), *_features(to), rest, *[losses[0]] * (LATEST - len(losses)), *losses]
