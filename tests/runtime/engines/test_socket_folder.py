"""Runs find a place for their sockets, however deep the folder for temporary files is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from palmette.runtime.engines.socket_folder import LONGEST_ROOT, USUAL_ROOT, short_root, socket_folder
from tests.control.run.test_processes import trees
from tests.runtime.world import TINY, Runs


def test_a_short_root_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path)[:LONGEST_ROOT])
    assert short_root() == str(tmp_path)[:LONGEST_ROOT]


def test_a_deep_root_gives_way_to_the_usual_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("deep" * LONGEST_ROOT)))
    with socket_folder() as folder:
        assert Path(folder).parent == Path(USUAL_ROOT)
    assert not Path(folder).exists()


_MAKE = """\
from palmette.runtime.engines import forkserver, socket_folder as module
module.LONGEST_ROOT = 1000
made = module.socket_folder()
forkserver._keep_folder()
print(made.name, flush=True)
input()
"""


def test_what_a_killed_process_has_left_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("palmette.runtime.engines.socket_folder.LONGEST_ROOT", 1000)
    (tmp_path / "palmette-of-mine").mkdir()
    given = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _MAKE], env=given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    with socket_folder():
        assert left.exists(), "its process is there"
    process.kill()
    process.communicate()
    with socket_folder() as mine:
        assert not left.exists()
        assert set(tmp_path.iterdir()) == {tmp_path / "palmette-of-mine", Path(mine)}
    assert list(tmp_path.iterdir()) == [tmp_path / "palmette-of-mine"], "nobody said that it is a run's"


@pytest.mark.parametrize("ends", ["", "os.fork() and os.wait()", "os.kill(os.getpid(), signal.SIGINT)"])
def test_what_a_process_that_ends_has_made_goes_with_it(tmp_path: Path, ends: str) -> None:
    script = f"""
import os, signal
from palmette.runtime.engines import forkserver
folder = forkserver._keep_folder().name
{ends or "pass"}
assert os.listdir(folder)
"""
    given = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=given, check=False, capture_output=True, text=True)
    assert "AssertionError" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_run_over_tls_on_the_testbed_needs_no_short_root(tmp_path: Path) -> None:
    runs, deep = Runs(tmp_path), tmp_path / ("d" * 100)
    deep.mkdir()
    arguments = [*runs.arguments(TINY, trees(5)["cut in three"]), "--iterations", "2", "--transport", "tls"]
    command = [sys.executable, "-c", "from palmette.cli import main; main()", *arguments, "-o", str(tmp_path / "out")]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(deep)}, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not [*deep.glob("palmette*"), *deep.glob("pymp*")]
