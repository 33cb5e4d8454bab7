"""The command line as a process of its own: pipes, imports, what a shell sees."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import palmette_command
from tests.cli.world import World

PALMETTE = str(Path(sys.executable).with_name("palmette"))
HEAVY = ("torch", "numpy", "scipy", "sklearn")


def palmette(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PALMETTE, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, **more
    )


def imported(*arguments: object) -> list[str]:
    """The heavy packages that a command imports."""
    script = f"""
import json, sys
from palmette.cli import execute
assert execute({[str(argument) for argument in arguments]!r}) == 0
print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stderr)


def test_exit_codes(world: World) -> None:
    assert palmette("plan", "all-edge", *world.inputs).returncode == 0
    refused = palmette("plan", "all-egde", *world.inputs)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "palmette: strategy: all-egde: no such strategy; did you mean all-edge?\n"
    unmet = palmette("plan", "all-edge", *world.inputs, "--iteration-deadline", "1us")
    assert (unmet.returncode, unmet.stdout) == (3, "")
    assert unmet.stderr.count("\n") == 1


def test_python_m_palmette_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "palmette", "plan", "all-egde"], capture_output=True, text=True, timeout=60, check=False
    )
    same = palmette("plan", "all-egde")
    assert (done.returncode, done.stdout, done.stderr) == (same.returncode, same.stdout, same.stderr)
    assert same.returncode == 2


@pytest.mark.parametrize("how", ["--json", "--timeline"])
def test_a_reader_that_goes_away_is_no_reason_to_complain(world: World, how: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f'"{PALMETTE}" estimate "{world.tree}" {" ".join(world.inputs)} {how} | true'],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [PALMETTE, "strategies"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, "palmette: cannot continue: No space left on device\n")


def test_a_closed_stdout_is_one_line() -> None:
    done = subprocess.run(
        ["bash", "-c", f'"{PALMETTE}" strategies >&-'], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, "palmette: cannot print the output: stdout is closed\n")


@pytest.mark.slow
def test_a_terminal_without_unicode_gets_its_table(world: World) -> None:
    done = palmette("compare", *world.inputs, env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "160"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "energy ?" in done.stdout  # × has no place in ASCII


def test_help_and_planning_import_nothing_heavy(world: World) -> None:
    plan = world.folder / "plan.json"
    assert imported("--help") == []
    assert imported("plan", "all-edge", *world.inputs, "-o", plan) == []
    assert "torch" not in imported("compare", *world.inputs)  # strategies that search may need numpy and scipy
    assert imported("estimate", plan) == []
    assert imported("check", world.cluster, world.profile, plan) == []


def test_help_loads_no_strategy_and_no_table() -> None:
    script = """
import sys
from palmette.cli import execute
assert execute(["--help"]) == 0
found = [name for name in ("pydantic", "rich", "yaml", "palmette.plan.rivals.whole") if name in sys.modules]
print(found, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "[]\n"


def test_debugging_shows_where(world: World) -> None:
    script = """
import os, sys, palmette.api
from palmette.cli import execute
palmette.api.load_profile = palmette.load_profile = lambda path: 1 / 0
os.environ.pop("PALMETTE_DEBUG", None)
assert execute(sys.argv[1:]) == 1
os.environ["PALMETTE_DEBUG"] = "1"
try:
    execute(sys.argv[1:])
except ZeroDivisionError:
    print("raised")
"""
    command = [sys.executable, "-c", script, "plan", "all-edge", *world.inputs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "raised\n"
    assert done.stderr == (
        "palmette: internal error: ZeroDivisionError: division by zero; set PALMETTE_DEBUG=1 to see where\n"
    )


WHILE_IMPORTING = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, *_):
        if name == "MODULE":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from palmette_command import main
sys.argv[1:] = ["run", "nothing.json"]
main()
"""


@pytest.mark.parametrize(
    "module", ["palmette.api", "palmette.cli", "typer", "palmette.cli.app", "palmette.cli.options"]
)
def test_ctrl_c_while_it_is_imported_is_one_line(module: str) -> None:
    command = [sys.executable, "-c", WHILE_IMPORTING.replace("MODULE", module)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "palmette: interrupted\n")


LOST_IN_AN_IMPORT = """
import os, signal, sys

class Swallows:
    def find_spec(self, name, *_):
        if name == "typer":
            try:
                os.kill(os.getpid(), signal.NUMBER)
            except BaseException:
                pass

sys.meta_path.insert(0, Swallows())
from palmette_command import main
sys.argv[1:] = ["strategies"]
main()
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_signal_is_not_lost_in_a_package_that_catches_everything(number: str) -> None:
    command = [sys.executable, "-c", LOST_IN_AN_IMPORT.replace("NUMBER", number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "palmette: interrupted\n")


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_interrupted_import_leaves_no_bar_and_no_hidden_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Screen()
    monkeypatch.setattr(sys, "__stderr__", screen)
    monkeypatch.setenv("TERM", "xterm")
    palmette_command._say()
    monkeypatch.setenv("TERM", "dumb")
    palmette_command._say()
    assert screen.getvalue() == "\r\x1b[2K\x1b[?25hpalmette: interrupted\npalmette: interrupted\n"
