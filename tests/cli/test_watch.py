"""palmette watch on the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from palmette.cli.watch import sparkline
from tests.cli.world import World
from tests.report.folders import run_folder, tree

SERVE = "import sys; from palmette.cli import main; main(['watch', sys.argv[1]])"


def test_a_page_until_it_is_interrupted(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", tree())
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(run)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert b"Training tiny" in answer.read()
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (0, "")


def test_the_terminal_shows_a_run_that_has_ended_and_returns(world: World) -> None:
    run = run_folder(world.folder / "run", tree())
    done = world.palmette("watch", run, "--terminal")
    assert (done.code, done.err) == (0, "")
    assert "run: manual for tiny, ended: done, 5 iterations" in done.out
    assert "loss 0.4600" in done.out
    assert "phone" in done.out


def test_a_folder_without_a_run_is_refused(world: World) -> None:
    (line,) = world.refused("watch", world.folder)
    assert "run.json: does not exist; expected the folder of a run" in line
    (line,) = world.refused("watch", world.folder / "nowhere", "--terminal")
    assert "cannot be read" in line


def test_a_row_of_bars() -> None:
    assert sparkline([1.0]) == "▁"
    assert sparkline([0.0, 7.0]) == "▁█"
    assert len(sparkline([float(k) for k in range(1000)])) == 48
