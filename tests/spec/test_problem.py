"""A PACT problem names what it lists, and says where it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palmette.spec.files import load
from palmette.spec.problem import Problem
from tests.spec.faulty import DATA, lines, plain

Spoil = Callable[[Any], None]


def test_the_example_reads() -> None:
    problem = load(Problem, DATA / "problem.json")
    assert problem.change[0].from_ == ("L", "gold")
    assert problem.run[1].loss_true is None
    assert '"from": [' in problem.to_json()


def put(*way: Any) -> Spoil:
    """Put the last into the place that the others lead to."""
    *steps, last, value = way

    def spoil(content: Any) -> None:
        for step in steps:
            content = content[step]
        content[last] = value

    return spoil


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (put("start", "model", "XL"), "start.model: XL: no such model; expected one of L, M, S"),
        (put("start", "nodes", "golf"), "start.nodes: golf: no such set of nodes; did you mean gold?"),
        (put("start", "loss", -0.5), "start.loss: -0.5: expected a number greater than or equal to 0"),
        (put("start", "loss", float("nan")), "start.loss: nan: expected a finite number"),
        (put("target_loss", -0.1), "target_loss: -0.1: expected a number greater than or equal to 0"),
        (put("deadline_s", 0), "deadline_s: 0: expected a number greater than 0"),
        (put("loss_step", 0), "loss_step: 0: expected a number greater than 0"),
        (put("time_step_s", -1), "time_step_s: -1: expected a number greater than 0"),
        (put("models", 1, "L"), "models[1]: L: models[0] is the same; expected it once"),
        (put("run", 0, "time_s", -1.0), "run[0].time_s: -1.0: expected a number greater than or equal to 0"),
        (put("run", 0, "energy_j", float("inf")), "run[0].energy_j: inf: expected a finite number"),
        (put("run", 0, "loss_robust", []), "run[0].loss_robust: []: expected at least 1"),
        (put("run", 0, "loss_true", [-0.1, "x"]), "run[0].loss_true[1]: x: expected a number"),
        (put("change", 0, "to", ["S", "bronze"]), "change[0].to: S, bronze: it leads to a pair that run does not list"),
        (put("change", 0, "from", ["L", "tin"]), "change[0].from[1]: tin: no such set of nodes"),
        (put("change", 0, "from", ["M", "silver"]), "change[0]: M, silver: it changes nothing; expected two different"),
        (put("change", 0, "from", ["L"]), "change[0].from[1]: missing: this field is required"),
        (put("change", 0, "energy_j", -0.1), "change[0].energy_j: -0.1: expected a number greater than or equal to 0"),
        (put("run", []), "run: []: expected at least 1"),
    ],
)
def test_one_line_a_fault(tmp_path: Path, spoil: Spoil, line: str) -> None:
    content = plain("problem.json")
    spoil(content)
    found = lines(Problem, content, tmp_path, ".json")
    assert any(each.startswith(line) for each in found), found


def test_a_pair_or_a_change_stands_there_once(tmp_path: Path) -> None:
    content = plain("problem.json")
    content["run"].append(content["run"][0])
    content["change"].append(content["change"][0])
    assert lines(Problem, content, tmp_path, ".json") == [
        "run[2]: L, gold: run[0] is the same; expected it once",
        "change[1]: L, gold to M, silver: change[0] is the same; expected it once",
    ]
