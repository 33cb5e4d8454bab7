"""Resumes from what workers have kept, where the engine of a run died and that is later than the last checkpoint.

The engine notes after every iteration how far all workers have come. The note survives its process, not a power cut,
after which the last checkpoint counts.

    checkpoint ── iteration ── iteration ── iteration ┤ the engine dies
                      note         note    ▲          │ workers write the state after the noted iteration
                                           └──────────┘ resumed from here
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError

from palmette.runtime.training.checkpoint import Checkpoint, Progress, to_progress
from palmette.runtime.worker.kept_state import clear_kept, read_kept

_NOTE, _KEPT = "agreed.json", "kept"


def kept_folder(checkpoints: Path) -> Path:
    """Where workers leave their state."""
    return checkpoints / _KEPT


def note_agreed(checkpoints: Path, progress: Progress) -> None:
    """Note how far all workers have come.

    Raises:
        OSError: it cannot be written.
    """
    draft = checkpoints / f".{_NOTE}"
    draft.write_text(json.dumps(asdict(progress)))
    draft.replace(checkpoints / _NOTE)


def agreed_iteration(checkpoints: Path) -> int | None:
    """How far all workers had come by the last note, None where there is none."""
    try:
        return to_progress(json.loads((checkpoints / _NOTE).read_text())).iteration
    except (OSError, TypeError, ValueError, AttributeError):
        return None


def forget_kept(checkpoints: Path) -> None:
    """Remove what an earlier engine and its workers have left."""
    (checkpoints / _NOTE).unlink(missing_ok=True)
    clear_kept(kept_folder(checkpoints))


def kept_after(last: Checkpoint, checkpoints: Path, patience_s: float) -> Checkpoint | None:
    """The state after the last iteration that all workers had completed, if it is later than the last checkpoint."""
    try:
        agreed = to_progress(json.loads((checkpoints / _NOTE).read_text()))
        weights, optimizer = read_kept(kept_folder(checkpoints), agreed.iteration, patience_s)
    except (OSError, SafetensorError, TypeError, ValueError, AttributeError):
        return None  # there is none, or a part of it: the checkpoint counts
    if agreed.iteration <= last.progress.iteration or not weights.keys() >= last.weights.keys():
        return None
    return Checkpoint(agreed, {name: weights[name] for name in last.weights}, optimizer)  # frozen ones are left out
