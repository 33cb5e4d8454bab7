"""Every command of the documentation is one that the command line accepts; those that can run here are run."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import typer

from palmette.cli import execute
from palmette.cli.app import app
from palmette.cli.check import summarize
from palmette.plan.hybrid import stages
from tests.cli.world import CLUSTER
from tests.docs.commands import NOT_RUN, ROOT, WHOLE_PAGES, ShownCommand, shown_commands
from tests.plan.problems import LITTLE, profile

COMMANDS = list(shown_commands())
TO_RUN: dict[str, list[ShownCommand]] = defaultdict(list)
for each in COMMANDS:
    if each.reason_not_to_run is None:
        TO_RUN[f"{each.page}: {each.section}"].append(each)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.text)
def test_the_command_line_accepts_it(command: ShownCommand) -> None:
    found: Any = typer.main.get_command(app)
    context, arguments = None, command.arguments
    while hasattr(found, "resolve_command"):
        context = found.make_context("palmette", arguments, parent=context, allow_extra_args=True)
        _, found, arguments = found.resolve_command(context, [*context._protected_args, *context.args])
    found.make_context(found.name, arguments, parent=context)


def test_reasons_not_to_run_a_command_are_about_one() -> None:
    assert {each.reason_not_to_run for each in COMMANDS} - {None} == {*NOT_RUN.values(), *WHOLE_PAGES.values()}


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a cluster, a small profile and the examples, and searches that end soon."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "profile.json").write_text(profile(3).to_json())
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    assert execute(["plan", "upload", "--profile", "profile.json", "--cluster", "cluster.yaml", "-o", "plan.json"]) == 0
    for name in ("EFFORT", "EFFORT_PER_NODE", "EFFORT_PER_SOURCE"):
        monkeypatch.setattr(stages, name, round(LITTLE * getattr(stages, name)))


@pytest.mark.slow
@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("section", TO_RUN)
def test_the_commands_of_a_section_run_as_they_are_written(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in TO_RUN[section]:
        if command.text.startswith("palmette init"):
            Path("cluster.yaml").unlink()
        if command.text.startswith("palmette keys issue") and not Path("keys").exists():
            assert execute(["keys", "init"]) == 0
        assert execute(command.arguments) == 0, (command.text, capsys.readouterr().err)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*/*.yaml")), ids=lambda file: file.parent.name)
def test_the_examples_are_valid(file: Path) -> None:
    assert summarize(file)
