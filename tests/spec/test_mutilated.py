"""Mutilated files load or are refused with lines that say why: never another exception, never a hang."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import palmette as pt
from palmette.cost.estimate import estimate
from palmette.errors import InputError
from palmette.spec.cluster import Cluster
from palmette.spec.document import Document
from palmette.spec.files import load, validated, write_text
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from palmette.spec.problem import Problem
from palmette.spec.profile import Profile
from tests.spec.faulty import DATA, plain
from tests.spec.mutilation import extremes, nonsense, spoilt, spoilt_bytes

quick = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FILES: dict[str, type[Document]] = {
    "cluster.yaml": Cluster,
    "profile.json": Profile,
    "plan.json": Plan,
    "measurements.json": Measurements,
    "problem.json": Problem,
}
CONTENTS = {name: plain(name) for name in FILES}
D = TypeVar("D", bound=Document)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutilated")


def assert_loads_or_is_refused(kind: type[Document], file: Path) -> None:
    """A document that can be written back, or one printable line per fault."""
    document, refused = loaded(kind, file)
    if document is not None:
        write_text(file.with_suffix(".out"), json.dumps(document.model_dump(mode="json"), allow_nan=False))
    else:
        assert refused.faults
        assert str(refused).split("\n") == [str(fault) for fault in refused.faults]
        assert all(str(fault).isprintable() and str(fault).startswith(str(file)) for fault in refused.faults)


def loaded(kind: type[Document], file: Path) -> tuple[Document | None, InputError]:
    try:
        return load(kind, file), InputError([])
    except InputError as error:
        return None, error


@pytest.mark.parametrize("name", FILES)
def test_content_spoilt_in_places(name: str, folder: Path) -> None:
    @quick
    @given(content=spoilt(plain(name), nonsense | extremes))
    def check(content: Any) -> None:
        file = folder / "spoilt.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        assert_loads_or_is_refused(FILES[name], file)

    check()


@pytest.mark.parametrize("name", FILES)
def test_the_same_as_yaml(name: str, folder: Path) -> None:
    @settings(quick, max_examples=40)
    @given(content=spoilt(plain(name), extremes | st.sampled_from([{1: 2}, {None: 1}, {(1,): 2}, b"\xff"])))
    def check(content: Any) -> None:
        file = folder / "spoilt.yaml"
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        assert_loads_or_is_refused(FILES[name], file)

    check()


@pytest.mark.parametrize("name", FILES)
def test_bytes_spoilt(name: str, folder: Path) -> None:
    @quick
    @given(data=spoilt_bytes((DATA / name).read_bytes()))
    def check(data: bytes) -> None:
        file = folder / f"spoilt{Path(name).suffix}"
        file.write_bytes(data)
        assert_loads_or_is_refused(FILES[name], file)

    check()


def finite(value: Any) -> bool:
    """Whether no number anywhere in plain content is infinite or none at all."""
    if isinstance(value, dict | list | tuple):
        return all(map(finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def made(kind: type[D], content: Any) -> D:
    try:
        return validated(kind, content)
    except InputError:
        reject()


@settings(quick, max_examples=60)
@given(st.data())
def test_what_loads_is_priced_in_finite_numbers_or_refused(data: st.DataObject) -> None:
    contents = dict(CONTENTS)
    name = data.draw(st.sampled_from(list(FILES)))
    contents[name] = data.draw(spoilt(contents[name], extremes, most=4))
    cluster = made(Cluster, contents["cluster.yaml"])
    profile = made(Profile, contents["profile.json"])
    plan = made(Plan, contents["plan.json"])
    with contextlib.suppress(InputError):
        assert finite(estimate(plan, profile, cluster, timeline=True).model_dump())


@settings(quick, max_examples=60)
@given(st.data())
def test_what_loads_is_decided_in_finite_numbers(data: st.DataObject) -> None:
    table = made(Measurements, data.draw(spoilt(CONTENTS["measurements.json"], extremes, most=4)))
    goal = data.draw(st.sampled_from(["time", "power", "energy", "edp", "time+power+energy+edp"]))
    assert finite(pt.plan("cluster", measurements=table, goal=goal).model_dump())


@settings(quick, max_examples=60)
@given(st.data())
def test_what_loads_is_scheduled_in_finite_numbers_or_refused(data: st.DataObject) -> None:
    problem = made(Problem, data.draw(spoilt(CONTENTS["problem.json"], extremes, most=4)))
    strategy = data.draw(st.sampled_from(["pact", "pact-optimum", "static-learn", "one-switch"]))
    with contextlib.suppress(InputError, pt.Infeasible):
        assert finite(pt.plan(strategy, problem=problem).model_dump())
