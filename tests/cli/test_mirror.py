"""Files of a run elsewhere, copied as they grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from palmette.cli.mirror import copy_rest


@pytest.mark.parametrize("step", [1, 3, 100])
def test_a_copy_follows_its_original(tmp_path: Path, step: int) -> None:
    there, here = b"", tmp_path / "copy"

    def part(offset: int) -> tuple[bytes, int]:
        return there[offset : offset + step], len(there)

    assert copy_rest(part, here) == 0
    assert not here.exists()
    for there in (b"one\n", b"one\ntwo\n", b"one\ntwo\n", b"new\n"):
        assert copy_rest(part, here) == len(there)
        assert here.read_bytes() == there
