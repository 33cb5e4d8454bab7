"""palmette what-if on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

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


def test_both_rows_of_a_variant_name_the_nodes_that_compute(world: World) -> None:
    file = world.folder / "plan.json"
    assert world.palmette("plan", "all-cloud", *world.inputs, "-o", file).code == 0
    kept, again = world.palmette("what-if", file).out.splitlines()[1:]
    assert [row.split()[-1] for row in (kept, again)] == ["cloud", "cloud"]


def test_a_narrow_terminal_has_fewer_columns_and_whole_numbers(
    world: World, plan: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = ["--link", "phone-server=50Mbit/s", "--without", "cloud", "--epochs", 50]
    wide = world.palmette("what-if", plan, *changes).out
    monkeypatch.setattr("palmette.cli.show.variants.console", lambda: Console(width=70))
    narrow = world.palmette("what-if", plan, *changes).out
    assert "energy" in wide.splitlines()[0]
    assert " energy " not in narrow.splitlines()[0]
    assert "total time" in narrow
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines()[:12])) <= 70


def test_several_values_of_one_thing_are_tried_alone(world: World, plan: Path) -> None:
    link = ["--link", "phone-server=1Mbit/s", "--link", "server-phone=50Mbit/s", "--link", "phone-server=9Mbit/s"]
    done = world.palmette("what-if", plan, *link, "--epochs", 1, "--epochs", 5, "--json")
    links = ["phone-server at 1 Mbit/s", "phone-server at 9 Mbit/s", "server-phone at 50 Mbit/s"]
    found = [each["variant"] for each in json.loads(done.out)["variants"]]
    assert found == ["as it is", *links, "1 epoch", "5 epochs"]


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
