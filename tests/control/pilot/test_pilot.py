"""A pilot's folder: which runs are made, continued or left alone. The runs follow a known curve."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import palmette as pt
from palmette.control.learn import learn, learned_run
from palmette.control.pilot import pilot as pilots
from palmette.control.pilot.grid import PilotGrid
from palmette.control.pilot.pilot import Pilot, PilotProgress
from palmette.control.pilot.request import PilotRequest
from palmette.control.run.request import to_record
from palmette.runtime.options import Options
from palmette.runtime.training.job import ProgressUpdate
from palmette.spec.learning_rate import LearningRateSchedule
from palmette.spec.plan import Plan
from tests.plan.problems import profile, three_tiers
from tests.plan.righttrain.problems import CURVE

ONE_DATA = CURVE.model_copy(update={"data_exponent": CURVE.epoch_exponent})
"""The curve of runs that all draw from the same data, which differ in how many samples they have seen."""


class CurveSession:
    """In the place of a training: its losses are those of a curve. After ``budget`` epochs in all, it is stopped.

    With a cosine they are higher on the way: the curve is that of where runs end.
    """

    made: list[tuple[str, int]] = []
    seeds: dict[str, int] = {}
    budget = 10**6

    def __init__(self, plan: Plan, request: Any, folder: Path, resumed: Any) -> None:
        self.plan, self.request, self.folder, self.first = plan, request, folder, resumed or 0

    def run(self, on_update: Callable[[ProgressUpdate], None], ready: Callable[[Any], None]) -> Any:
        """Write what a run leaves."""
        CurveSession.made.append((self.folder.name, self.first))
        CurveSession.seeds[self.folder.name] = self.request.options.seed
        (phase,), epochs, epoch = self.plan.phases, self.request.epochs, self.first
        fraction = sum(each.epoch_samples or 0 for each in phase.sources) / 1000
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "metrics.jsonl").open("a") as lines:
            for epoch in range(self.first, min(epochs, self.first + CurveSession.budget)):
                loss = ONE_DATA.loss(epoch + 1, fraction, phase.replicas)
                loss *= 1.5 if self.request.options.schedule == "cosine" and epoch + 1 < epochs else 1.0
                lines.write(json.dumps({"iteration": epoch, "epoch": epoch, "loss": loss, "samples": 32}) + "\n")
                on_update(ProgressUpdate(epoch + 1, epochs, epoch, loss, 32, 0.0))
        CurveSession.budget -= epoch + 1 - self.first
        ended = "done" if epoch + 1 == epochs else "stopped"
        (self.folder / "checkpoints" / str(epoch + 1)).mkdir(parents=True)
        record = {"format": "palmette.run/1", "plan": self.plan.model_dump(mode="json"), "ended": ended}
        record["options"] = to_record(self.request)
        (self.folder / "run.json").write_text(json.dumps(record))
        return SimpleNamespace(ended=ended)


@pytest.fixture(autouse=True)
def curve_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pilots, "TrainingSession", CurveSession)

    def last(folder: Path) -> SimpleNamespace:
        return SimpleNamespace(checkpoint=max(int(each.name) for each in folder.iterdir()))

    monkeypatch.setattr(pilots.checkpoint, "last", last)
    monkeypatch.setattr(CurveSession, "made", [])
    monkeypatch.setattr(CurveSession, "seeds", {})
    monkeypatch.setattr(CurveSession, "budget", 10**6)


def pilot(folder: Path, **asked: Any) -> Pilot:
    known = profile(phone=40.0, server=5.0, cloud=1.0)
    return Pilot(PilotRequest(model="tiny", **asked), three_tiers(), known, folder)


def test_the_curve_of_the_runs_is_found_again(tmp_path: Path) -> None:
    found = pilot(tmp_path, epochs=20, grid=PilotGrid(replicas=(1, 2, 4))).run()
    for asked in ((5, 1.0, 1), (20, 0.25, 4), (40, 0.5, 2)):
        assert found.loss(*asked) == pytest.approx(ONE_DATA.loss(*asked), rel=0.05)
    assert found.left_out_error is not None
    assert found.left_out_error < 0.02
    assert found.unvaried() == {}
    assert found.fitted_on["data"] == (0.25, 1.0)
    assert json.loads((tmp_path / "learning.json").read_text()) == json.loads(found.to_json())


COSINE = Options(schedule="cosine", warmup=3, seed=4)


def test_with_a_schedule_over_the_run_only_the_ends_of_runs_count(tmp_path: Path) -> None:
    found = pilot(tmp_path, epochs=16, options=COSINE).run()
    for asked in ((4, 1.0, 1), (16, 0.25, 2), (40, 0.5, 2)):
        assert found.loss(*asked) == pytest.approx(ONE_DATA.loss(*asked), rel=0.05)
    assert found.schedule == LearningRateSchedule(name="cosine", warmup=3)
    assert found.fitted_on["epochs"] == (4.0, 16.0)
    assert found.unvaried() == {}
    assert found.runs == 12
    assert len(set(CurveSession.seeds.values())) == 12


def test_shorter_runs_are_continued_as_others_and_not_made_again(tmp_path: Path) -> None:
    seen: list[PilotProgress] = []
    CurveSession.budget = 6 * 4 + 3
    with pytest.raises(pt.RunError, match="stopped"):
        pilot(tmp_path, epochs=4, options=COSINE).run()
    CurveSession.budget = 10**6
    pilot(tmp_path, epochs=4, options=COSINE).run(seen.append)
    assert CurveSession.made[7:9] == [("data-0.5-replicas-1-epochs-2", 0), ("data-0.5-replicas-1-epochs-2", 1)]
    assert len(CurveSession.made) == 12 + 1
    assert (seen[0].run, seen[-1].runs) == (8, 12)
    assert seen[-1].done == pytest.approx(1.0)


def test_a_warm_up_alone_needs_no_shorter_runs(tmp_path: Path) -> None:
    found = pilot(tmp_path, options=Options(warmup=3)).run()
    assert (found.runs, found.fitted_on["epochs"]) == (6, (1.0, 10.0))
    assert found.schedule == LearningRateSchedule(warmup=3)


def test_runs_with_other_schedules_are_not_mixed(tmp_path: Path) -> None:
    pilot(tmp_path / "constant").run()
    pilot(tmp_path / "cosine", options=COSINE).run()
    folders = [tmp_path / kind / "runs" / "data-1-replicas-1" for kind in ("constant", "cosine")]
    with pytest.raises(
        pt.InputError, match="schedule: constant and cosine with a warm-up of 3 iterations: expected the same"
    ):
        learn([learned_run(folder) for folder in folders])


def test_a_run_whose_schedule_did_not_end_tells_nothing(tmp_path: Path) -> None:
    CurveSession.budget = 7
    with pytest.raises(pt.RunError, match="stopped"):
        pilot(tmp_path, options=COSINE).run()
    with pytest.raises(pt.InputError, match=r"ended: stopped: its learning rate goes down over the whole run"):
        learned_run(tmp_path / "runs" / "data-1-replicas-1")


def test_a_recipe_brings_its_schedule(tmp_path: Path) -> None:
    known = profile(phone=40.0, server=5.0, cloud=1.0)
    recipe = pt.Recipe(model="lenet5", data="digits", schedule="linear", warmup=7, early_stop="loss:1")
    found = pt.pilot(recipe, tmp_path / "own", cluster=three_tiers(), profile=known, epochs=4)
    assert found.schedule == LearningRateSchedule(name="linear", warmup=7)
    assert json.loads((tmp_path / "own" / "pilot.json").read_text())["early_stop"] is None
    other = pt.pilot(recipe, tmp_path / "other", cluster=three_tiers(), profile=known, epochs=4, schedule="constant")
    assert other.schedule == LearningRateSchedule(warmup=7)


def test_data_and_replicas_have_a_seed_of_their_own_and_windows_have_theirs(tmp_path: Path) -> None:
    grid = PilotGrid(fractions=(1.0, 0.5), replicas=(1, 2), windows=(1, 8))
    pilot(tmp_path, options=Options(seed=7), grid=grid).run()
    assert CurveSession.seeds == {
        "data-1-replicas-1": 7, "data-0.5-replicas-1": 8, "data-1-replicas-2": 9, "data-0.5-replicas-2": 10,
        "data-1-replicas-2-window-8": 9,
    }  # fmt: skip


def test_runs_that_are_done_are_not_made_again(tmp_path: Path) -> None:
    pilot(tmp_path).run()
    assert len(CurveSession.made) == 6
    pilot(tmp_path, grid=PilotGrid(replicas=(1, 2, 3))).run()
    assert [name for name, _ in CurveSession.made[6:]] == [f"data-{phi}-replicas-3" for phi in ("1", "0.5", "0.25")]


def test_a_run_that_was_stopped_continues(tmp_path: Path) -> None:
    CurveSession.budget = 14
    with pytest.raises(pt.RunError, match="stopped"):
        pilot(tmp_path).run()
    assert not (tmp_path / "learning.json").exists()
    CurveSession.budget = 10**6
    found = pilot(tmp_path).run()
    assert CurveSession.made[1:3] == [("data-0.5-replicas-1", 0), ("data-0.5-replicas-1", 4)]
    assert found.fitted_on["epochs"] == (1, 10)
    assert found.runs == 6


def test_a_pilot_of_something_else_is_not_mixed_in(tmp_path: Path) -> None:
    pilot(tmp_path)
    with pytest.raises(pt.InputError) as refused:
        pilot(tmp_path, batch=16, epochs=3)
    assert [fault.field for fault in refused.value.faults] == ["batch", "epochs"]


def test_progress_rises_to_all_of_it(tmp_path: Path) -> None:
    seen: list[PilotProgress] = []
    pilot(tmp_path).run(seen.append)
    done = [each.done for each in seen]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1.0)
    assert (seen[0].run, seen[-1].run, seen[-1].runs) == (1, 6, 6)
    assert seen[0].left_s is None
    assert seen[-1].left_s == pytest.approx(0.0, abs=1e-6)


def test_one_epoch_says_nothing_about_epochs() -> None:
    with pytest.raises(pt.InputError, match="epochs: 1: expected at least 2"):
        PilotRequest(model="tiny", epochs=1)


def test_from_python(tmp_path: Path) -> None:
    known = profile(phone=40.0, server=5.0, cloud=1.0)
    found = pt.pilot("lenet5", tmp_path, cluster=three_tiers(), profile=known, epochs=5, fractions=(1, 0.5), lr=0.1)
    record = json.loads((tmp_path / "pilot.json").read_text())
    assert (record["model"], record["lr"], record["epochs"], found.runs) == ("lenet5", 0.1, 5, 4)
    assert pt.load_profile(tmp_path / "profile.json") == known


def test_a_hub_without_a_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pt.InputError, match="hub: phone"):
        pilot(tmp_path / "pilot", transport="tls", hub="phone")
