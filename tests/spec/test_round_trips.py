"""Every file reads back as what was written, whatever it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from palmette.spec.cluster import Cluster
from palmette.spec.document import Document
from palmette.spec.estimate import Estimate
from palmette.spec.files import load, validated, write_text
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from palmette.spec.problem import Problem
from palmette.spec.profile import Profile
from palmette.spec.trace import Operation
from tests.spec.faulty import DATA, plain
from tests.spec.random_documents import clusters, estimates, operations, plans, profiles

quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def through_json(kind: type[Document], content: Any, folder: Path) -> None:
    """The content as a document, written as JSON and read again, is the same document."""
    document = validated(kind, content)
    file = folder / "document.json"
    write_text(file, json.dumps(document.model_dump(mode="json"), ensure_ascii=False))
    again = load(kind, file) if "format" in kind.model_fields else validated(kind, json.loads(file.read_bytes()))
    assert again == document
    assert again.model_dump_json() == document.model_dump_json()


@quick
@given(content=clusters())
def test_a_cluster(folder: Path, content: Any) -> None:
    through_json(Cluster, content, folder)
    cluster = validated(Cluster, content)
    file = folder / "cluster.yaml"
    write_text(file, cluster.to_yaml())
    assert load(Cluster, file) == cluster
    assert list(load(Cluster, file).nodes) == list(cluster.nodes)


@quick
@given(content=profiles())
def test_a_profile(folder: Path, content: Any) -> None:
    through_json(Profile, content, folder)
    write_text(folder / "profile.json", validated(Profile, content).to_json())
    assert load(Profile, folder / "profile.json") == validated(Profile, content)


@quick
@given(content=plans)
def test_a_plan_with_its_inputs(folder: Path, content: Any) -> None:
    through_json(Plan, content, folder)
    write_text(folder / "plan.json", validated(Plan, content).to_json())
    assert load(Plan, folder / "plan.json") == validated(Plan, content)


@quick
@given(content=estimates)
def test_an_estimate(folder: Path, content: Any) -> None:
    through_json(Estimate, content, folder)


@quick
@given(content=operations)
def test_an_operation(folder: Path, content: Any) -> None:
    through_json(Operation, content, folder)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Cluster, "cluster.yaml"),
        (Profile, "profile.json"),
        (Plan, "plan.json"),
        (Measurements, "measurements.json"),
        (Problem, "problem.json"),
    ],
)
def test_the_examples(kind: type[Document], name: str, folder: Path) -> None:
    assert validated(kind, plain(name)) == load(kind, DATA / name)
    through_json(kind, plain(name), folder)
