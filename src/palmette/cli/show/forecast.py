"""Predicted losses as people see them, and how good predictors are."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from palmette.cli.show.console import console
from palmette.predict.bounds import BoundConstants
from palmette.predict.forecast import Forecast, History, outside_notes


def show_quality(evaluated: str, quality: dict[str, Any]) -> None:
    """Print how good predictors are on the curves that they were evaluated on."""
    out = console()
    out.print(Text(evaluated))
    table = Table("", "predictor", box=None, pad_edge=False)
    for heading in ("mean error", "mean interval", "within", "total above", "changes"):
        table.add_column(heading, justify="right")
    for which, name in (("run", "λ_run"), ("change", "λ_change")):
        for predictor, found in quality.items():
            row = found[which]
            if row is None:
                continue
            table.add_row(
                name,
                predictor,
                f"{row['mae']:.4f}",
                f"{row['mil']:.3f}",
                f"{row['icp']:.1%}",
                f"{row['exceeded']:.1%}",
                f"{row['many']}",
            )
    out.print(table)


def show_constants(constants: BoundConstants) -> None:
    """Print what curves tell about the bounds."""
    out, rate, share = console(), constants.rate, constants.share
    if rate is not None:
        out.print(f"bound of λ_run: excess loss ≤ {rate.scale:.3g} / ({rate.offset:.3g} + epochs) of a phase's first")
    if share is not None:
        out.print(f"bound of λ_change: {share:.3g} of what was learnt, times the part of the rest that is removed")


def show_forecast(past: History, forecast: Forecast, change: Forecast | None) -> None:
    """Print the predicted loss of each epoch, and of a change."""
    out = console()
    table = Table("epoch", box=None, pad_edge=False)
    for heading in ("change expected", "0.05", "0.95 (robust)", "loss expected", "loss robust"):
        table.add_column(heading, justify="right")
    loss = past.loss
    rows = zip(forecast.expected, forecast.low, forecast.robust, forecast.total_robust, strict=True)
    for epoch, (*row, total) in enumerate(rows, 1):
        loss += row[0]
        table.add_row(f"+{epoch}", *(f"{value:+.4f}" for value in row), f"{loss:.4f}", f"{past.loss + total:.4f}")
    out.print(table)
    if change is not None:
        (expected,), (low,), (robust,) = change.expected, change.low, change.robust
        out.print(f"the change: {expected:+.4f}, quantiles {low:+.4f} and {robust:+.4f} (robust)")
    notes = outside_notes("the epochs", forecast) + ([] if change is None else outside_notes("the change", change))
    for note in dict.fromkeys(notes):
        out.print(Text(f"note: {note}"))
