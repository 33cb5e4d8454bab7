"""Checkpoints appear whole or not at all; the last and the best stay."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from palmette.errors import InputError, RunError
from palmette.runtime.training import checkpoint
from palmette.runtime.training.checkpoint import Checkpoint, Progress


def at(iteration: int, accuracy: float | None = None) -> Checkpoint:
    value = torch.full((2,), float(iteration))
    return Checkpoint(Progress(iteration, best=accuracy), {"w": value}, {"w/step": value})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_saved_is_found(tmp_path: Path) -> None:
    checkpoint.save(at(7, 0.5), tmp_path, best=False)
    found = checkpoint.last(tmp_path)
    assert found.progress == Progress(7, best=0.5)
    assert torch.equal(found.weights["w"], torch.full((2,), 7.0))
    assert torch.equal(found.optimizer["w/step"], torch.full((2,), 7.0))


def test_only_the_last_and_the_best_stay(tmp_path: Path) -> None:
    for iteration, best in [(0, False), (10, True), (20, False), (30, False)]:
        checkpoint.save(at(iteration), tmp_path, best=best)
    assert names(tmp_path) == ["000010", "000030", "best"]
    assert (tmp_path / "best").resolve().name == "000010"
    checkpoint.save(at(40), tmp_path, best=True)
    assert names(tmp_path) == ["000040", "best"]


def test_the_last_is_the_one_of_the_largest_number(tmp_path: Path) -> None:
    checkpoint.save(at(999_999), tmp_path, best=True)
    checkpoint.save(at(1_000_000), tmp_path, best=False)
    assert checkpoint.last(tmp_path).progress.iteration == 1_000_000


def test_saving_twice_at_one_moment_leaves_one(tmp_path: Path) -> None:
    checkpoint.save(at(5), tmp_path, best=True)
    checkpoint.save(at(5), tmp_path, best=False)
    assert names(tmp_path) == ["000005", "best"]


def test_a_draft_that_a_crash_left_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(at(5), tmp_path, best=False)
    (tmp_path / ".000009").mkdir()
    assert checkpoint.last(tmp_path).progress.iteration == 5
    checkpoint.save(at(9), tmp_path, best=False)
    assert names(tmp_path) == ["000009"]


def test_nothing_to_go_on_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no checkpoint"):
        checkpoint.last(tmp_path / "missing")


def test_a_full_disk_is_one_line_and_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(at(5), tmp_path, best=False)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(RunError, match=r"000006: the checkpoint cannot be written: No space left on device$"):
        checkpoint.save(at(6), tmp_path, best=False)
    assert names(tmp_path) == ["000005"]
