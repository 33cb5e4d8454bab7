"""The progress of a run as lines of text, for a log: at most one every few seconds, beside what is rare."""

from __future__ import annotations

import time
from collections.abc import Callable

from palmette.control.progress.wording import held_out_line, prediction_lines
from palmette.control.run.callbacks import RunCallback, RunStart
from palmette.control.run.record import PlanChange
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import ProgressUpdate, RemainingTime, RunOutcome

EVERY_S = 5.0


class ProgressLines(RunCallback):
    """Says with ``write`` what happens, a line at a time, with the time of day before it."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._said_s = float("-inf")

    def on_start(self, start: RunStart) -> None:
        """Say what begins."""
        after = f", continued after {start.iteration}" if start.iteration else ""
        self._say(f"{start.plan.strategy} for {start.plan.model}: {start.iterations} iterations{after}")

    def on_time_estimate(self, remaining: RemainingTime) -> None:
        """Say how long it will take on this machine."""
        for line in prediction_lines(remaining):
            self._say(line)

    def on_step(self, update: ProgressUpdate) -> None:
        """Say how far it is, every few seconds, and of the last iteration."""
        if time.monotonic() - self._said_s > EVERY_S or update.iteration == update.iterations:
            self._said_s = time.monotonic()
            self._say(f"iteration {update.iteration} of {update.iterations}, loss {update.loss:.4f}")

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Say what was measured."""
        self._say(held_out_line(evaluation))

    def on_replan(self, change: PlanChange) -> None:
        """Say why the run continues with another plan."""
        self._say(f"{change.reason}; continuing after {change.iteration} iterations with {', '.join(change.nodes)}")

    def on_end(self, outcome: RunOutcome) -> None:
        """Say how it ended."""
        self._say(f"ended: {outcome.ended}, after {outcome.iterations} iterations")

    def _say(self, line: str) -> None:
        self._write(f"{time.strftime('%F %T')}  {line}")
