"""Keys of one run, in memory: they are as good as those of a folder, and in no file."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.runtime.transports.keys.folder import Keys
from palmette.runtime.transports.keys.held import key_source, temporary_keys
from tests.control.run.test_resume import REPLICAS, palmette, when
from tests.runtime.world import TINY, Runs


def test_nodes_of_a_run_trust_each_other_and_no_others() -> None:
    ours, others = temporary_keys(["phone", "server"], 1), temporary_keys(["phone"], 1)
    phone = ours.credentials("phone")
    assert phone.objection(ours.credentials("server").certificate, "server") is None
    assert phone.objection(ours.credentials("server").certificate, "phone") == "it belongs to server"
    assert phone.objection(others.credentials("phone").certificate, "phone") == "it was issued by another authority"
    assert ours.renewed(phone) is phone


def test_a_node_is_given_its_own_keys_alone() -> None:
    own = temporary_keys(["phone", "server"], 1).of("phone")
    assert list(own.held) == ["phone"]
    with pytest.raises(InputError, match="keys: server: these are not its keys; expected those of phone"):
        own.credentials("server")
    assert "PRIVATE" not in repr(own)


def test_keys_come_from_memory_or_from_a_folder(tmp_path: Path) -> None:
    held = temporary_keys(["phone"], 1)
    assert key_source(held) is held
    assert isinstance(key_source(tmp_path), Keys)


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_no_key(tmp_path: Path) -> None:
    runs, temporary = Runs(tmp_path), tmp_path / "temporary"
    temporary.mkdir()
    words = [*runs.arguments(TINY, REPLICAS), "--transport", "tls", "--iterations", "100000", "--quiet"]
    with palmette(*words, "-o", str(tmp_path / "out"), folder=temporary) as process:
        when(tmp_path / "out" / "metrics.jsonl", 3, lambda: os.kill(process.pid, signal.SIGKILL)).join(120)
        process.communicate(timeout=60)  # until its workers are gone, too
        assert process.returncode == -signal.SIGKILL
        left = [path for path in tmp_path.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert left == []
    assert not list(temporary.glob("palmette-keys-*"))
