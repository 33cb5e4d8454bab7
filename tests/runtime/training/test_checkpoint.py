"""Checkpoints appear whole or not at all; the last two and the best stay, and what is damaged is not used."""

from __future__ import annotations

import os
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
    found = checkpoint.last(tmp_path).checkpoint
    assert found.progress == Progress(7, best=0.5)
    assert torch.equal(found.weights["w"], torch.full((2,), 7.0))
    assert torch.equal(found.optimizer["w/step"], torch.full((2,), 7.0))


def test_only_the_last_two_and_the_best_stay(tmp_path: Path) -> None:
    for iteration, best in [(0, False), (10, True), (20, False), (30, False)]:
        checkpoint.save(at(iteration), tmp_path, best=best)
    assert names(tmp_path) == ["000010", "000020", "000030", "best"]
    assert (tmp_path / "best").resolve().name == "000010"
    checkpoint.save(at(40), tmp_path, best=True)
    assert names(tmp_path) == ["000030", "000040", "best"]


def test_the_last_is_the_one_of_the_largest_number(tmp_path: Path) -> None:
    checkpoint.save(at(999_999), tmp_path, best=True)
    checkpoint.save(at(1_000_000), tmp_path, best=False)
    assert checkpoint.last(tmp_path).checkpoint.progress.iteration == 1_000_000


def test_saving_twice_at_one_moment_leaves_one(tmp_path: Path) -> None:
    checkpoint.save(at(5), tmp_path, best=True)
    checkpoint.save(at(5), tmp_path, best=False)
    assert names(tmp_path) == ["000005", "best"]


def test_a_draft_that_a_crash_left_is_no_checkpoint(tmp_path: Path) -> None:
    checkpoint.save(at(5), tmp_path, best=False)
    (tmp_path / ".000009").mkdir()
    assert checkpoint.last(tmp_path).checkpoint.progress.iteration == 5
    checkpoint.save(at(9), tmp_path, best=False)
    assert names(tmp_path) == ["000005", "000009"]


def test_nothing_to_go_on_from_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no checkpoint"):
        checkpoint.last(tmp_path / "missing")


def test_a_full_disk_is_one_line_and_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(at(5), tmp_path, best=False)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    with pytest.raises(RunError, match=r"000006: the checkpoint cannot be written: No space left on device$"):
        checkpoint.save(at(6), tmp_path, best=False)
    assert names(tmp_path) == ["000005"]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json", "SHA256SUMS"])
def test_a_damaged_one_is_named_and_the_one_before_is_taken(tmp_path: Path, name: str) -> None:
    for iteration in (5, 9):
        checkpoint.save(at(iteration), tmp_path, best=True)
    content = bytearray((tmp_path / "000009" / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / "000009" / name).write_bytes(content)
    found = checkpoint.last(tmp_path)
    assert found.checkpoint.progress.iteration == 5
    assert len(found.damaged) == 1
    assert f"{tmp_path}: 000009: the checkpoint cannot be read" in found.damaged[0]
    checkpoint.save(at(6), tmp_path, best=False)
    assert names(tmp_path) == ["000005", "000006"]
    assert checkpoint.last(tmp_path).damaged == ()


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json", "SHA256SUMS"])
@pytest.mark.parametrize("kind", ["missing", "link", "pipe", "folder"])
def test_one_with_a_file_that_is_none_is_named(tmp_path: Path, name: str, kind: str) -> None:
    for iteration in (5, 9):
        checkpoint.save(at(iteration), tmp_path, best=True)
    path = tmp_path / "000009" / name
    path.unlink()
    if kind == "link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    found = checkpoint.last(tmp_path)
    assert found.checkpoint.progress.iteration == 5
    told = "missing" if kind == "missing" else "no file"
    assert found.damaged == (f"{tmp_path}: 000009: the checkpoint cannot be read: {name} is {told}",)
    checkpoint.save(at(6), tmp_path, best=False)
    assert checkpoint.last(tmp_path).checkpoint.progress.iteration == 6
    assert (tmp_path / "000009").exists() == (kind == "folder"), "what is not of a checkpoint stays"


def test_where_all_are_damaged_each_is_named(tmp_path: Path) -> None:
    for iteration in (5, 9):
        (checkpoint.save(at(iteration), tmp_path, best=False) / "model.safetensors").write_bytes(bytes(200))
    with pytest.raises(InputError, match=r"000009.*model.safetensors is damaged[^$]*000005.*is damaged"):
        checkpoint.last(tmp_path)


def test_one_of_before_there_were_checksums_is_read(tmp_path: Path) -> None:
    (checkpoint.save(at(5), tmp_path, best=False) / "SHA256SUMS").unlink()
    assert checkpoint.last(tmp_path).checkpoint.progress.iteration == 5
    (checkpoint.save(at(9), tmp_path, best=False) / "model.safetensors").write_bytes(bytes(200))
    assert checkpoint.last(tmp_path).checkpoint.progress.iteration == 5


def test_one_that_was_being_replaced_is_still_there(tmp_path: Path) -> None:
    checkpoint.save(at(5), tmp_path, best=False).rename(tmp_path / "000005~")
    assert checkpoint.last(tmp_path).checkpoint.progress.iteration == 5
    checkpoint.save(at(5), tmp_path, best=False)
    assert names(tmp_path) == ["000005"]


def test_only_checkpoints_are_removed(tmp_path: Path) -> None:
    others = ["000047-my-backup", "1", "000002/notes"]
    checkpoint.save(at(2), tmp_path, best=False)
    for name in others:
        (tmp_path / name).mkdir(parents=True)
    for iteration in (3, 4, 5):
        checkpoint.save(at(iteration), tmp_path, best=False)
    assert names(tmp_path) == ["000002", "000004", "000005", "000047-my-backup", "1"]
    checkpoint.clear(tmp_path)
    assert all((tmp_path / name).is_dir() for name in others)
    with pytest.raises(InputError, match="there is no checkpoint"):
        checkpoint.last(tmp_path)
