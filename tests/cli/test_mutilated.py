"""Files with pieces cut out, put in or swapped: always an answer, never a traceback, never an internal error."""

from __future__ import annotations

import contextlib
import copy
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import palmette as pt
from palmette.cli import execute
from tests.cli.world import CLUSTER, TREE
from tests.plan.problems import profile

DATA: dict[str, Any] = {
    "cluster.yaml": yaml.safe_load(CLUSTER),
    "profile.json": json.loads(profile().to_json()),
    "tree.json": TREE,
}
WORDS = (
    *("5 Mbit/s", "0 W", "1e18 W", "1e999 s", "-1 B", "999999999 GiB", "𝟝 W", "\n", "[/]", "\ud800"),
    *("phone", "server", "cloud", "front", "back", "whole", "step", "epoch", "async", "int8"),
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from([*WORDS, 1e-300, 1e18, 10**400]),
    st.just([]),
    st.just({}),
    st.lists(st.integers(-1, 3), max_size=3),
)


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [at, *(place for key, value in inner for place in places(value, (*at, key)))]


@st.composite
def mutilated(draw: st.DrawFn, data: Any) -> Any:
    """The document with up to three changes: something replaced, taken out, renamed or doubled."""
    data = copy.deepcopy(data)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(places(data)))
        if not at:
            continue
        holder = data
        for key in at[:-1]:
            holder = holder[key]
        match draw(st.sampled_from(["replace", "remove", "rename", "double"])):
            case "replace":
                holder[at[-1]] = draw(ODD)
            case "remove":
                del holder[at[-1]]
            case "rename" if isinstance(holder, dict):
                holder[draw(st.text(max_size=4))] = holder.pop(at[-1])
            case "double" if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[at[-1]]))
    return data


def written(name: str, data: Any) -> str:
    if name.endswith(".yaml"):
        return yaml.safe_dump(data, allow_unicode=True, sort_keys=False)
    return json.dumps(data)


def answered(*arguments: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = execute([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def is_an_answer(code: int, out: str, err: str) -> None:
    assert "Traceback" not in err
    assert "internal error" not in err
    assert code in {0, 2, 3}
    if code:
        assert out == ""
        assert all(line.startswith("palmette: ") for line in err.splitlines())
        assert err.strip()
    else:
        assert err == ""


COMMANDS = (
    ("check", "cluster.yaml", "profile.json", "tree.json"),
    ("estimate", "tree.json", "--profile", "profile.json", "--cluster", "cluster.yaml", "--json"),
    ("estimate", "tree.json", "--profile", "profile.json", "--cluster", "cluster.yaml", "--timeline"),
    ("plan", "all-edge", "--profile", "profile.json", "--cluster", "cluster.yaml"),
    ("plan", "hybrid", "--effort", "0.01", "--profile", "profile.json", "--cluster", "cluster.yaml"),
)
COMPARE = ("compare", "--goal", "edp", "--profile", "profile.json", "--cluster", "cluster.yaml", "--json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("name", DATA)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_mutilated_documents(folder: Path, name: str, draw: st.DataObject) -> None:
    is_answered(folder, name, draw, COMMANDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cluster.yaml", "profile.json"])
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_mutilated_documents_are_compared(folder: Path, name: str, draw: st.DataObject) -> None:
    """By every strategy, which takes seconds: few of them."""
    is_answered(folder, name, draw, [COMPARE])


def is_answered(folder: Path, name: str, draw: st.DataObject, commands: Sequence[tuple[str, ...]]) -> None:
    for other, data in DATA.items():
        changed = draw.draw(mutilated(data)) if other == name else data
        try:
            text = written(other, changed)
        except (ValueError, yaml.YAMLError):  # neither JSON nor YAML can hold it
            return
        (folder / other).write_text(text, encoding="utf-8", errors="surrogatepass")
    command = draw.draw(st.sampled_from(commands))
    is_an_answer(*answered(*(folder / word if word in DATA else word for word in command)))


@pytest.mark.parametrize("name", DATA)
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_mutilated_text(folder: Path, name: str, draw: st.DataObject) -> None:
    for other, data in DATA.items():
        (folder / other).write_text(written(other, data), encoding="utf-8")
    whole = (folder / name).read_bytes()
    start = draw.draw(st.integers(0, len(whole)))
    end = start + draw.draw(st.integers(0, len(whole) // 3))
    (folder / name).write_bytes(whole[:start] + draw.draw(st.binary(max_size=12)) + whole[end:])
    command = draw.draw(st.sampled_from(COMMANDS))
    is_an_answer(*answered(*(folder / word if word in DATA else word for word in command)))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(arguments=st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["plan", "all-edge", "--json", "check"]))))
def test_mutilated_commands(arguments: list[str]) -> None:
    code, _, err = answered(*arguments)
    assert code in {0, 2, 3}
    assert "Traceback" not in err
    assert "internal error" not in err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "3",
        '"x"',
        "{" * 2000,
        "[" * 100_000,
        "a: &a [*a]",
        "? [1]\n: 2",
        "\x00",
        "%",
        "---\n---",
        "!!python/object:os.system {}",
    ],
)
@pytest.mark.parametrize("name", ["file.yaml", "file.json"])
def test_files_of_something_else(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    code, out, err = answered("check", file)
    is_an_answer(code, out, err)
    assert code == 2
    assert all(line.startswith(f"palmette: {file}: ") for line in err.splitlines())


def test_the_unharmed_files_are_right(folder: Path) -> None:
    for name, data in DATA.items():
        (folder / name).write_text(written(name, data))
    for command in COMMANDS:
        assert answered(*(folder / word if word in DATA else word for word in command))[0] == 0
    assert pt.load_cluster(folder / "cluster.yaml").nodes
