"""Whose files are in the folder of a run: a new run replaces none unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.control.run.folder import refuse_taken
from palmette.errors import InputError


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "best.safetensors",
        "metrics.jsonl",
        "trace.jsonl",
        "checkpoints/best",
        "adapters/adapter_config.json",
        "adapters/adapter_model.safetensors",
    ],
)
def test_a_file_of_somebody_else_that_a_run_would_replace_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    how = f"{name}: a run would replace it; expected another folder, or force to replace it"
    with pytest.raises(InputError) as found:
        refuse_taken(tmp_path)
    assert [str(fault) for fault in found.value.faults] == [f"{tmp_path}: {how}"]


def test_other_files_of_somebody_else_are_in_nobodys_way(tmp_path: Path) -> None:
    for name in ("notes.txt", "plan.json", "log.txt", "samples/mine", "checkpoints/notes", "adapters/README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    refuse_taken(tmp_path)
