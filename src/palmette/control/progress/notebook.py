"""The progress of a run in a notebook: one line of HTML that is replaced as it goes on."""

from __future__ import annotations

import time
from html import escape
from importlib import import_module
from typing import Any

from palmette.control.progress.wording import held_out_line, prediction_lines
from palmette.control.run.callbacks import RunCallback, RunStart
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import ProgressUpdate, RemainingTime, RunOutcome

EVERY_S = 0.2


class NotebookProgress(RunCallback):
    """A bar in a cell's output; it needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn_s = 0.0
        self._done = self._total = self._samples = 0
        self._prediction = self._step = self._evaluation = ""

    def on_start(self, start: RunStart) -> None:
        """Show an empty bar."""
        self._done, self._total = start.iteration, start.iterations
        self._draw()

    def on_time_estimate(self, remaining: RemainingTime) -> None:
        """Say how long it will take on this machine."""
        self._prediction = "; ".join(prediction_lines(remaining))
        self._draw()

    def on_step(self, update: ProgressUpdate) -> None:
        """Move the bar, a few times a second."""
        self._done, self._total = update.iteration, update.iterations
        self._samples += update.samples
        speed = self._samples / update.wall_s if update.wall_s else 0.0
        self._step = f"epoch {update.epoch}, loss {update.loss:.4f}, {speed:.0f} samples/s"
        if time.monotonic() - self._drawn_s > EVERY_S:
            self._draw()

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Show what was measured."""
        self._evaluation = held_out_line(evaluation)
        self._draw()

    def on_end(self, outcome: RunOutcome) -> None:
        """Show how it ended."""
        self._prediction = "" if outcome.ended == "done" else outcome.ended
        self._draw()

    def _draw(self) -> None:
        notebook = import_module("IPython.display")
        self._drawn_s = time.monotonic()
        said = [f"{self._done}/{self._total}", self._step, self._evaluation, self._prediction]
        bar = f"<progress value='{self._done}' max='{max(1, self._total)}'></progress>"
        shown = notebook.HTML(f"<div>{bar} {escape(' · '.join(filter(None, said)))}</div>")
        if self._handle is None:
            self._handle = notebook.display(shown, display_id=True)
        else:
            self._handle.update(shown)
