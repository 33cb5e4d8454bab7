"""A run's folder as an entry of a list; imports no torch, since ``palmette ls`` should be quick."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from palmette.errors import one_line
from palmette.spec.run_entry import RunEntry, RunState

LOG = "log.txt"
_TAIL_BYTES = 64 * 1024


def entry_of(run: str, folder: Path, *, alive: bool, since: str, by: str = "", told_to_stop: bool = False) -> RunEntry:
    """What the files of a run say; ``alive``: the process that runs it is there; ``told_to_stop``: by its user.

    A folder without a run belongs to one that is about to start, or has failed before it could.
    """
    record = _record(folder)
    found = record.get("plan")
    plan: dict[str, Any] = found if isinstance(found, dict) else {}
    state, why = _state(record, alive, told_to_stop)
    done, loss = _progress(folder)
    return RunEntry(
        run=run,
        state=state,
        why=_text(why),
        model=_text(plan.get("model")),
        strategy=_text(plan.get("strategy")),
        nodes=tuple(_text(node) for node in _nodes(plan)),
        iterations=done,
        loss=loss,
        by=by,
        since=since,
        folder=str(folder),
    )


def _record(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "run.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _state(record: dict[str, Any], alive: bool, told_to_stop: bool) -> tuple[RunState, str]:
    ended = record.get("ended")
    if alive:
        return ("running", "") if ended == "running" else ("waiting", "it starts")
    if told_to_stop and ended in (None, "running"):
        return "stopped", "before it could write a checkpoint"
    if ended is None:
        return "failed", "it did not start"
    if not isinstance(ended, str):
        return "failed", f"its run.json cannot be read: ended is {ended!r}"
    known: dict[str, tuple[RunState, str]] = {
        "done": ("done", ""),
        "stopped": ("stopped", ""),
        "running": ("failed", "its process has died"),
    }
    return known.get(ended, ("failed", ended))


def _progress(folder: Path) -> tuple[int, float | None]:
    """How many iterations are done, by the last line that was written, and its loss; lines count from 0."""
    try:
        with (folder / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return 0, None
    for line in reversed(lines):
        try:
            row = json.loads(line)
            done, loss = int(row["iteration"]) + 1, float(row["loss"])
        except (ValueError, TypeError, KeyError):
            continue
        return done, loss if math.isfinite(loss) else None
    return 0, None


def _nodes(plan: dict[str, Any]) -> list[Any]:
    try:
        placed = [each["node"] for phase in plan["phases"] for each in (*phase["sources"], *phase["instances"])]
    except (KeyError, TypeError):
        return []
    return list(dict.fromkeys(placed))


def _text(found: Any) -> str:
    return one_line(str(found))[:200] if found else ""
