"""Strategies that take a table of their own, with or without profile and cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.plan.core import registry
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.strategy import Decision, PlanRequest, Strategy
from palmette.spec.document import Count, OpenDocument
from tests.plan.problems import profile, three_tiers


class Table(OpenDocument):
    format: Literal["test.table/1"] = "test.table/1"
    answer: Count


@dataclass(frozen=True, kw_only=True)
class Told(Strategy):
    """Says what its table says."""

    name: ClassVar[str] = "told"
    summary: ClassVar[str] = "says what its table says"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = False

    table: Table

    def decide(self, task: PlanRequest) -> Decision:
        return Decision((), {"answer": self.table.answer}, model="of-the-table", batch=7)


@pytest.fixture
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"told": Told}
    monkeypatch.setattr(registry, "strategies", lambda: known)


def written(folder: Path, data: dict[str, Any]) -> str:
    file = folder / "table.json"
    file.write_text(json.dumps(data))
    return str(file)


def test_a_table_is_enough_and_names_model_and_batch() -> None:
    made = make_plan(Told(table=Table(answer=42)), PlanRequest())

    assert (made.model, made.batch, made.decision, made.phases) == ("of-the-table", 7, {"answer": 42}, ())
    assert made.estimate is None


def test_a_strategy_without_table_asks_for_profile_and_cluster() -> None:
    with pytest.raises(pt.InputError, match=r"profile.*\n.*cluster"):
        pt.plan("all-edge")


@pytest.mark.usefixtures("_told")
def test_a_missing_table_is_named() -> None:
    with pytest.raises(pt.InputError, match="table: missing"):
        configured("told", {})


@pytest.mark.usefixtures("_told")
def test_a_document_is_a_file_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        execute(["plan", "told", "--table", written(tmp_path, {"format": "test.table/1", "answer": 3}), "--json"]) == 0
    )

    plan = json.loads(capsys.readouterr().out)
    assert plan["decision"] == {"answer": 3}
    assert plan["estimate"] is None
    assert plan["phases"] == []


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("table", [{"format": "test.table/1", "answer": 0}, {"answer": 1}])
def test_a_wrong_table_is_bad_input(table: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["plan", "told", "--table", written(tmp_path, table), "--json"]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert "table.json" in err


def test_a_plan_without_phases_cannot_be_priced() -> None:
    made = make_plan(Told(table=Table(answer=1)), PlanRequest())

    with pytest.raises(pt.InputError, match="made from tables alone"):
        pt.estimate(made, profile=profile(2), cluster=three_tiers())
