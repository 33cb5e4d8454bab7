"""What ``palmette curves`` and ``palmette predict`` do, with their progress bars and tables."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from palmette.cli.show import console
from palmette.errors import Fault, InputError, RunError
from palmette.measure.curves.collect import collect as collect_curves
from palmette.measure.curves.grid import CurveGrid
from palmette.measure.curves.trainer import CurveRecipe
from palmette.predict.examples import change_examples, run_examples
from palmette.predict.forecast import Forecast, History, Predictor, Setting
from palmette.predict.learned import LearnedPredictor, train_predictor
from palmette.predict.metrics import evaluate_changes, evaluate_runs
from palmette.predict.power_law import PowerLawPredictor
from palmette.predict.shipped_curves import load_shipped_curves
from palmette.spec.curves import load_curves


def collect(path: Path, recipe: CurveRecipe, grid: CurveGrid, jobs: int | None, quiet: bool) -> tuple[int, int]:
    """Collect curves; how many are new, and how many are there.

    Raises:
        RunError: it was stopped, or a training failed.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _bar("curves", quiet) as watch:
            return collect_curves(path, recipe, grid, jobs=jobs or _cores(), on_progress=watch)
    except KeyboardInterrupt:
        raise RunError(f"stopped; {path} has what is done, and the same command goes on") from None


def _cores() -> int:
    return len(os.sched_getaffinity(0))


@contextmanager
def _bar(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    screen = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=quiet or not screen.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, every: bar.update(task, completed=done, total=every)


def taught(path: Path | None, seed: int, quiet: bool) -> tuple[LearnedPredictor, dict[str, Any]]:
    """A predictor taught by curves, and how good it and a power law are on those left out.

    Raises:
        InputError: the file cannot be used, or has too few curves.
    """
    curves = load_shipped_curves() if path is None else load_curves(path)
    with _bar("learning", quiet) as watch:
        predictor, left_out = train_predictor(curves, seed=seed, on_epoch=watch)
    moments, switches = run_examples(left_out), change_examples(left_out)
    rivals: dict[str, Predictor] = {"learned": predictor, "power-law": PowerLawPredictor()}
    return predictor, {
        name: {"run": asdict(evaluate_runs(rival, moments)), "change": asdict(evaluate_changes(rival, switches))}
        for name, rival in rivals.items()
    }


def show_quality(origin: dict[str, Any], quality: dict[str, Any]) -> None:
    """Print how good predictors are on curves that were left out."""
    out = console()
    out.print(f"taught by {origin['curves']} curves of {origin['model']} on {origin['data']}; judged by the others")
    table = Table("", "predictor", box=None, pad_edge=False)
    for heading in ("mean error", "mean interval", "within", "total above", "changes"):
        table.add_column(heading, justify="right")
    for which, name in (("run", "λ_run"), ("change", "λ_change")):
        for predictor, found in quality.items():
            row = found[which]
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


def changed_setting(
    setting: Setting, pruning: float | None, samples: int | None, classes: int | None
) -> Setting | None:
    """The setting after a change, None where none is asked for.

    Raises:
        InputError: nothing can become that.
    """
    if pruning is None and samples is None and classes is None:
        return None
    pruning = setting.pruning if pruning is None else pruning
    if not setting.pruning <= pruning < 1:
        expected = f"expected a fraction from {setting.pruning:g}, which is gone already, to below 1"
        raise InputError(Fault("--to-pruning", pruning, expected))
    return Setting(pruning=pruning, samples=samples or setting.samples, classes=classes or setting.classes)


def show_forecast(history: History, told: Forecast, change: Forecast | None) -> None:
    """Print the loss of each epoch to come, and of a change."""
    out = console()
    table = Table("epoch", box=None, pad_edge=False)
    for heading in ("change expected", "0.05", "0.95 (robust)", "loss expected", "loss robust"):
        table.add_column(heading, justify="right")
    loss = history.loss
    rows = zip(told.expected, told.low, told.robust, told.total_robust, strict=True)
    for epoch, (*row, total) in enumerate(rows, 1):
        loss += row[0]
        table.add_row(f"+{epoch}", *(f"{value:+.4f}" for value in row), f"{loss:.4f}", f"{history.loss + total:.4f}")
    out.print(table)
    if change is not None:
        (expected,), (low,), (robust,) = change.expected, change.low, change.robust
        out.print(f"the change: {expected:+.4f}, quantiles {low:+.4f} and {robust:+.4f} (robust)")
