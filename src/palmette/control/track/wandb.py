"""Weights & Biases: a run of a project."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from palmette.control.track.tracker import TrackedRun

PROJECT = "palmette"


class WandbTracker:
    """Writes to a run of its own; wandb's settings are those of its environment variables."""

    def __init__(self, argument: str, run: TrackedRun) -> None:
        wandb: Any = import_module("wandb")
        self._run = wandb.init(
            project=argument or PROJECT,
            name=run.name,
            dir=str(run.folder),
            config=dict(run.parameters),
            id=run.known_id("wandb"),
            resume="allow",
        )
        run.keep_id("wandb", str(self._run.id))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write numbers."""
        self._run.log(dict(metrics), step=step)

    def close(self, ended: str) -> None:
        """Finish the run; one that failed has another exit code."""
        self._run.summary["ended"] = ended
        self._run.finish(exit_code=0 if ended in ("done", "stopped") else 1)
