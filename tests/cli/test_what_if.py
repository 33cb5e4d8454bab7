"""palmette what-if on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.world import World


@pytest.fixture
def plan(world: World) -> Path:
    file = world.folder / "plan.json"
    assert world.palmette("plan", "jointdnn", *world.inputs, "-o", file).code == 0
    return file


def test_a_table_with_two_rows_a_variant(world: World, plan: Path) -> None:
    done = world.palmette("what-if", plan, "--link", "phone-server=50Mbit/s", "--without", "cloud", "--epochs", 50)
    assert (done.code, done.err) == (0, "")
    for name in ("as it is", "phone-server at 50 Mbit/s", "without cloud", "50 epochs"):
        assert done.out.count(name) >= 2
    assert "planned again" in done.out


def test_as_json(world: World, plan: Path) -> None:
    done = world.palmette("what-if", plan, "--link", "server-phone=1 Mbit/s", "--json")
    assert done.code == 0
    same, slower = json.loads(done.out)["variants"]
    assert same["kept"]["iteration_s"] == same["planned"]["estimate"]["iteration_s"]
    assert slower["variant"] == "server-phone at 1 Mbit/s"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--link", "phone-server"], "--link: phone-server: expected a link and its bandwidth: phone-server=50Mbit/s"),
        (["--link", "phone-moon=1 Mbit/s"], "--link: phone-moon: no such link"),
        (["--without", "moon"], "--without: moon: no such node; expected one of phone, server, cloud"),
        (["--epochs", "-3"], "--epochs: -3: expected at least 1"),
    ],
)
def test_errors_are_one_line(world: World, plan: Path, arguments: list[str], line: str) -> None:
    (told,) = world.refused("what-if", plan, *arguments)
    assert told.startswith(line)
