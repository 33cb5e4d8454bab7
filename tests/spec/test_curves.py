"""Files of learning curves: what is written is read, and what is wrong is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palmette.errors import InputError
from palmette.spec.curves import Curve, CurvePhase, Origin, load_curves, load_unfinished

ORIGIN = Origin(model="lenet5", data="digits", batch=32, optimizer="sgd", lr=0.01)


def stretch(**other: Any) -> dict[str, Any]:
    plain = {"nodes": "gold", "samples": 9, "classes": 3, "pruning": 0.0, "start_loss": 2.3, "losses": [2.0, 1.5]}
    return plain | other


def line(*phases: dict[str, Any], seed: int = 0) -> str:
    return json.dumps({"seed": seed, "phases": list(phases)}) + "\n"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "curves.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    curve = Curve(seed=3, phases=(CurvePhase(**stretch()), CurvePhase(**stretch(nodes="silver", pruning=0.5))))
    found = load_curves(written(tmp_path, ORIGIN.to_json(), curve.to_json()))

    assert found.curves == (curve,)
    assert (found.model, found.data, found.batch, found.lr) == ("lenet5", "digits", 32, 0.01)


def test_a_key_tells_seed_nodes_pruning_and_epochs() -> None:
    curve = Curve(seed=3, phases=(CurvePhase(**stretch()), CurvePhase(**stretch(nodes="silver", pruning=0.5))))

    assert curve.key() == (3, ("gold", 0.0, 2), ("silver", 0.5, 2))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (line(stretch(pruning=1.0)), r"curves\[0\].phases\[0\].pruning: 1.0: expected a number less than 1"),
        (line(stretch(pruning=-0.1)), "pruning: -0.1: expected"),
        (line(stretch(losses=[])), "losses: .*expected at least 1"),
        (line(stretch(losses=[1.0, -2.0])), r"losses\[1\]: -2.0: expected"),
        (line(stretch(losses=[1.0, float("nan")])), "NaN|nan"),
        (line(stretch(samples=0)), "samples: 0: expected"),
        (line(), "phases: .*expected at least 1"),
        (line(stretch(), seed=-1), "seed: -1: expected"),
        ("[1, 2]\n", r"curves\[0\]"),
        ("nonsense\n", r"curves.jsonl:2: .*cannot be parsed"),
    ],
)
def test_faults_name_file_field_and_value(tmp_path: Path, wrong: str, told: str) -> None:
    path = written(tmp_path, ORIGIN.to_json(), wrong)

    with pytest.raises(InputError, match=told) as caught:
        load_curves(path)
    assert "curves.jsonl" in str(caught.value)


@pytest.mark.parametrize("first", ["", line(stretch()), "[]\n", '{"format": "palmette.plan/1"}\n'])
def test_the_first_line_says_what_the_file_is(tmp_path: Path, first: str) -> None:
    with pytest.raises(InputError, match=r"palmette.curves/1"):
        load_curves(written(tmp_path, first))


def test_a_half_written_last_line_is_left_out_where_asked(tmp_path: Path) -> None:
    whole = ORIGIN.to_json() + line(stretch())
    path = written(tmp_path, whole, line(stretch(), seed=1)[:-9])
    found, size = load_unfinished(path)

    assert [curve.seed for curve in found.curves] == [0]
    assert size == len(whole)
    with pytest.raises(InputError, match="cannot be parsed"):
        load_curves(path)
