"""Every command of the documentation is one that the command line accepts, and each page is typed by a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from palmette.cli.app import app
from palmette.cli.check import summarize
from tests.docs.commands import LEFT_OUT, ROOT, TYPED_BY, ShownCommand, shown_commands
from tests.docs.session import Typed, steps

COMMANDS = list(shown_commands())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.text)
def test_the_command_line_accepts_it(command: ShownCommand) -> None:
    found: Any = typer.main.get_command(app)
    context, arguments = None, command.arguments
    while hasattr(found, "resolve_command"):
        context = found.make_context("palmette", arguments, parent=context, allow_extra_args=True)
        _, found, arguments = found.resolve_command(context, [*context._protected_args, *context.args])
    found.make_context(found.name, arguments, parent=context)


def test_every_page_with_commands_is_typed() -> None:
    assert {command.page for command in COMMANDS} == set(TYPED_BY)
    assert [test for test in TYPED_BY.values() if not (ROOT / test).exists()] == []


@pytest.mark.parametrize("page", LEFT_OUT)
def test_what_is_left_out_of_a_page_is_in_it(page: str, tmp_path: Path) -> None:
    lines = [step.command for step in steps(ROOT / page, tmp_path) if isinstance(step, Typed)]
    assert set(LEFT_OUT[page]) <= set(lines)


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*/*.yaml")), ids=lambda file: file.parent.name)
def test_the_examples_are_valid(file: Path) -> None:
    assert summarize(file)
