"""TensorBoard: event files in a folder, by default in that of the run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from palmette.control.track.tracker import TrackedRun


class TensorBoardTracker:
    """Writes scalars, and the parameters as a text."""

    def __init__(self, argument: str, run: TrackedRun) -> None:
        writing: Any = import_module("torch.utils.tensorboard")
        folder = argument or str(run.folder / "tensorboard")
        # What was written after the checkpoint that the run continues from is hidden.
        purge = None if run.resumed_at is None else run.resumed_at + 1
        self._writer = writing.SummaryWriter(folder, purge_step=purge)
        rows = [f"| {name} | {value} |" for name, value in run.parameters.items()]
        self._writer.add_text("parameters", "\n".join(["| parameter | value |", "|---|---|", *rows]))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write scalars."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step)

    def close(self, ended: str) -> None:
        """Write what is left."""
        self._writer.add_text("ended", ended)
        self._writer.close()
