"""Plans and runs, read from wherever they are; everything else is refused with its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palmette.errors import InputError
from palmette.report.entry import read_entries
from tests.plan.problems import profile, three_tiers
from tests.report.folders import plan_file, run_folder, tree


def test_a_plan_a_folder_and_the_file_in_it(tmp_path: Path) -> None:
    file, folder = plan_file(tmp_path / "mine.json", tree()), run_folder(tmp_path / "first", tree())
    plan, run, same = read_entries([file, folder, folder / "run.json"])
    assert (plan.name, plan.run) == ("mine", None)
    assert (run.name, run.folder, run.run and run.run.iterations) == ("first", folder, 5)
    assert (same.name, same.folder) == ("first (2)", folder)


def test_a_plan_without_inputs_takes_those_given(tmp_path: Path) -> None:
    bare = plan_file(tmp_path / "bare.json", tree().model_copy(update={"inputs": None}))
    (alone,) = read_entries([bare])
    assert (alone.profile, alone.cluster) == (None, None)
    (given,) = read_entries([bare], profile(4), three_tiers())
    assert given.cluster == three_tiers()


def test_all_faults_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other.json").write_text('{"format": "palmette.profile/1"}')
    (tmp_path / "torn.json").write_text('{"format": ')
    broken = run_folder(tmp_path / "broken", tree())
    written = json.loads((broken / "run.json").read_text()) | {"energy_j": "much"}
    (broken / "run.json").write_text(json.dumps(written))
    paths = [tmp_path / name for name in ("missing", "empty", "other.json", "torn.json", "broken")]
    with pytest.raises(InputError) as caught:
        read_entries(paths)
    lines = str(caught.value).splitlines()
    assert len(lines) == 5
    assert "missing: the file: cannot be read" in lines[0]
    assert "empty: run.json: does not exist" in lines[1]
    assert "palmette.profile/1: expected palmette.plan/1 or palmette.run/1" in lines[2]
    assert "torn.json: the file: cannot be parsed" in lines[3]
    assert "energy_j: much" in lines[4]


def test_a_run_may_say_more_than_is_known(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", tree(), time_s=None, iterations_s=3, seeds=[1])
    (entry,) = read_entries([folder])
    assert entry.run is not None
    assert (entry.run.model_extra or {})["seeds"] == [1]
