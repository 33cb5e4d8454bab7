"""Help for every command, with an example; completion for the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from palmette.cli import execute
from palmette.cli.app import app
from palmette.cli.options import DATA_KINDS
from palmette.plan.core.registry import strategies
from tests.cli.world import CLUSTER, LEARNING, World
from tests.plan.problems import profile


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that does something, as it is typed."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else ()
    for name in names:
        yield from commands(command.get_command(None, name), (*path, name))
    if not names:
        yield path


ALL = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([*path, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"Example: palmette {' '.join(path)}" in text


def test_no_line_of_the_list_of_commands_is_cut_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert execute(["--help"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_help_names_every_kind_of_data() -> None:
    from palmette.zoo.data.registry import usages

    assert [f"{name}," for name in usages()[1:-1]] == DATA_KINDS.split()[:-3]
    assert usages()[-1] == DATA_KINDS.split()[-3]


@pytest.mark.parametrize("group", sorted({path[0] for path in ALL if len(path) > 1}))
def test_every_group_has_help_with_an_example(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute([group, "--help"]) == 0
    assert f"Example: palmette {group} " in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if kind.composed else name
        for name, kind in strategies().items()
        if kind.needs_profile
    ],
)
def test_the_example_of_a_strategy_works(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.write("learning.json", LEARNING)
    world.write("cluster.yaml", CLUSTER.replace("    limits: {cpu: 50%, energy: 2 Wh}\n", ""))
    world.write("profile.json", profile(3).to_json())
    monkeypatch.chdir(world.folder)
    assert execute(["plan", name, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    example = text.partition("Example: palmette ")[2].partition(" Options:")[0]
    assert execute(example.split()) == 0
    assert (world.folder / "plan.json").exists()


def test_no_command_is_left_out() -> None:
    assert {("compare",), ("report",), ("watch",), ("init",), ("run",), ("plan", "auto")} <= set(ALL)
    assert {("plan", name) for name in strategies()} <= set(ALL)


def completed(line: str) -> list[str]:
    words = {"_PALMETTE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    script = "from palmette.cli import main; main([])"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "word"),
    [("palmette comp", "compare"), ("palmette plan hi", "hiertrain"), ("palmette run --opti", "--optimizer")],
)
def test_the_shell_completes(line: str, word: str) -> None:
    assert word in completed(line)


def test_completion_can_be_installed() -> None:
    script = "from palmette.cli import main; main(['--show-completion', 'bash'])"
    chosen = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # bash, whatever runs the tests
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False, env=chosen
    )
    assert "_PALMETTE_COMPLETE" in done.stdout
