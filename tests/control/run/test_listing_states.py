"""A run's folder as an entry of a list: what its record says, and what it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palmette.control.run.listing import entry_of


@pytest.mark.parametrize("ended", [None, "running"])
def test_a_run_that_was_told_to_stop_has_not_failed(tmp_path: Path, ended: str | None) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"ended": ended}))
    found = entry_of("feedfeed", tmp_path, alive=False, since="", told_to_stop=True)
    assert (found.state, found.why) == ("stopped", "before it could write a checkpoint")


@pytest.mark.parametrize(
    ("ended", "state", "why"),
    [
        ("done", "done", ""),
        ("stopped", "stopped", ""),
        ("running", "failed", "its process has died"),
        ("node phone: its worker died", "failed", "node phone: its worker died"),
        (None, "failed", "it did not start"),
        (["done"], "failed", "its run.json cannot be read: ended is ['done']"),
    ],
)
def test_a_run_without_a_process_is_as_its_record_says(tmp_path: Path, ended: Any, state: str, why: str) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"ended": ended}))
    found = entry_of("feedfeed", tmp_path, alive=False, since="")
    assert (found.state, found.why) == (state, why)
