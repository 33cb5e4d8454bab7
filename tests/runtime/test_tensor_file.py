"""A file of tensors has the same bytes for the same content, and is a safetensors file."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from palmette.runtime.tensor_file import write_tensors
from palmette.runtime.worker.setup import unshared

ABOUT = {name: name * 2 for name in ("model", "pruning", "größe", "a", "b", "c")}


def test_the_same_content_has_the_same_bytes_and_is_read_back(tmp_path: Path) -> None:
    tensors = {
        "b": torch.rand(3),
        "a": torch.rand(2, 2, dtype=torch.float64),
        "empty": torch.zeros(0),
        "n": torch.ones(()),
    }
    written = set()
    for number in range(8):
        path = tmp_path / str(number)
        write_tensors(dict(sorted(tensors.items(), reverse=bool(number % 2))), path, dict(reversed(ABOUT.items())))
        written.add(path.read_bytes())
    assert len(written) == 1
    with safe_open(tmp_path / "0", "pt") as opened:
        assert opened.metadata() == ABOUT
    found = load_file(tmp_path / "0")
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], value) for name, value in tensors.items())


def test_tensors_that_are_not_contiguous_are_written(tmp_path: Path) -> None:
    tensors = {"turned": torch.rand(2, 3).T, "spread": torch.ones(1).expand(4)}
    write_tensors(unshared(tensors), tmp_path / "copied")
    write_tensors({"turned": tensors["turned"]}, tmp_path / "given")
    assert torch.equal(load_file(tmp_path / "copied")["turned"], tensors["turned"])
    assert torch.equal(load_file(tmp_path / "given")["turned"], tensors["turned"])
