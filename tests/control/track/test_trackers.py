"""A run is written to experiment trackers, and can be read back from them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import palmette as pt
from palmette.cli import execute
from palmette.control.track.registry import TRACKERS, TrackerEntry
from palmette.control.track.tracker import TrackedRun
from tests.control.run.test_callbacks import StopAt, chain
from tests.control.run.test_processes import trees
from tests.runtime.world import TINY, Runs, losses

NAMES = {"train/loss", "train/iteration_s", "train/epoch_loss", "eval/loss", "eval/accuracy", "energy_j", "time_s"}
PASSWORD = "expected it without name and password, which belong into the environment"
IMPORTED = pytest.mark.filterwarnings("ignore")  # of other projects


@IMPORTED
def test_tensorboard_reads_what_a_run_wrote(runs: Runs) -> None:
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    logs = runs.folder / "logs"
    outcome = pt.run(**chain(runs), iterations=4, track=f"tensorboard:{logs}")

    found = reading.EventAccumulator(str(logs))
    found.Reload()
    assert set(found.Tags()["scalars"]) == NAMES
    steps = {event.step: event.value for event in found.Scalars("train/loss")}
    assert steps == pytest.approx(dict(enumerate(losses(runs.folder / "out"), 1)), rel=1e-6)
    (accuracy,) = found.Scalars("eval/accuracy")
    assert (accuracy.step, accuracy.value) == (4, pytest.approx(outcome.evaluation.accuracy))
    (told,) = found.Tensors("parameters/text_summary")
    assert f"| model | {TINY} |" in told.tensor_proto.string_val[0].decode()


@pytest.mark.slow
@IMPORTED
def test_mlflow_reads_what_a_run_wrote_and_a_resumed_run_continues_it(runs: Runs) -> None:
    pytest.importorskip("sqlalchemy")
    mlflow = pytest.importorskip("mlflow")
    address = f"sqlite:///{runs.folder}/mlflow.db"
    stopped = pt.run(**chain(runs), iterations=6, track=[f"mlflow:{address}"], callbacks=[StopAt(2)])

    client = mlflow.MlflowClient(tracking_uri=address)
    experiment = client.get_experiment_by_name("palmette").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.info.status == "KILLED"
    assert run.data.params["model"] == TINY
    assert run.data.params["lr"] == "0.01"
    assert run.data.params["plan/nodes"] == "phone, cloud"
    assert len(client.get_metric_history(run.info.run_id, "train/loss")) == stopped.iterations

    assert execute(["run", "--resume", str(runs.folder / "out"), "--quiet"]) == 0
    (run,) = client.search_runs([experiment])
    assert run.info.status == "FINISHED"
    history = client.get_metric_history(run.info.run_id, "train/loss")
    assert {each.step: each.value for each in history} == dict(enumerate(losses(runs.folder / "out"), 1))
    assert set(run.data.metrics) == NAMES


class Wandb(ModuleType):
    """A stand-in for wandb: remembers what it is given."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None)
        self.rows: dict[int, dict[str, float]] = {}
        self.asked: list[dict[str, Any]] = []
        self.finished: list[int] = []

    def init(self, **asked: Any) -> SimpleNamespace:
        self.asked.append(asked)
        return SimpleNamespace(id="r1", log=self._log, summary={}, finish=self._finish)

    def _log(self, metrics: Mapping[str, float], *, step: int) -> None:
        self.rows.setdefault(step, {}).update(metrics)

    def _finish(self, *, exit_code: int) -> None:
        self.finished.append(exit_code)


def test_wandb_gets_the_run_by_the_command_line(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    arguments = [*runs.arguments(TINY, trees(5)["cut in two"]), "--iterations", "3", "--quiet", "--seed", "7"]
    assert execute([*arguments, "--track", "wandb:fruit", "-o", str(runs.folder / "out")]) == 0

    (asked,) = wandb.asked
    assert (asked["project"], asked["name"], asked["id"], asked["config"]["seed"]) == ("fruit", "out", None, "7")
    assert [row["train/loss"] for row in wandb.rows.values()] == losses(runs.folder / "out")
    assert set(wandb.rows[3]) == NAMES
    assert wandb.finished == [0]
    assert TrackedRun(runs.folder / "out", {}, resumed_at=3).known_id("wandb") == "r1"
    assert json.loads((runs.folder / "out" / "run.json").read_text())["options"]["track"] == ["wandb:fruit"]


class Unreliable:
    """A tracker whose server goes away."""

    def __init__(self, argument: str, run: TrackedRun) -> None:
        if argument == "closed":
            raise OSError("connection refused\nand more")
        self.calls = 0

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        raise OSError("gone")

    def close(self, ended: str) -> None:
        raise AssertionError("it is dropped")


@pytest.fixture
def unreliable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRACKERS, "unreliable", TrackerEntry(Unreliable, package="json", argument="STATE"))


@pytest.mark.usefixtures("unreliable")
def test_a_training_goes_on_without_a_tracker_that_fails(runs: Runs) -> None:
    with pytest.warns(RuntimeWarning, match="tracker unreliable failed, and the run goes on without it: OSError: gone"):
        assert pt.run(**chain(runs), iterations=2, track="unreliable").ended == "done"


@pytest.mark.usefixtures("unreliable")
def test_a_tracker_that_cannot_be_opened_ends_the_run_before_workers_start(runs: Runs) -> None:
    with pytest.raises(pt.RunError) as caught:
        pt.run(**chain(runs), iterations=2, track="unreliable:closed")
    assert str(caught.value) == "tracker unreliable cannot be opened: OSError: connection refused"


@pytest.mark.parametrize(
    ("track", "line"),
    [
        ("tensorbord:x", "track: tensorbord:x: no such tracker; did you mean tensorboard[:DIR]?"),
        ("absent", "track: absent: nowhere is not installed; install it with: pip install nowhere"),
        (
            "wandb:http://me:secret@host",
            f"track: wandb:…: the address would be written to run.json; {PASSWORD}",
        ),
    ],
)
def test_trackers_that_cannot_be_used_are_refused_in_one_line(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, track: str, line: str
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", Wandb())
    monkeypatch.setitem(TRACKERS, "absent", TrackerEntry(Unreliable, package="nowhere", argument="X"))
    with pytest.raises(pt.InputError) as caught:
        pt.run(**chain(runs), iterations=2, track=track)
    assert str(caught.value) == line
    assert not Path(runs.folder / "out").exists()
