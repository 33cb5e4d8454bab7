"""A user's program hears of a run while it goes on, and may stop it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import palmette as pt
from palmette.control.run.callbacks import EVENTS, CallbackList
from palmette.spec.plan import Plan
from tests.control.adapt.test_recovery import ASKED, CLUSTER, REPLICAS
from tests.control.run.test_processes import trees
from tests.runtime.world import TINY, Runs, alive, hired


class Heard:
    """Notes every event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        if name not in EVENTS:
            raise AttributeError(name)
        return lambda what: self.events.append((name, what))

    def of(self, name: str) -> list[Any]:
        return [what for event, what in self.events if event == name]


class StopAt(pt.RunCallback):
    def __init__(self, iteration: int) -> None:
        self.iteration = iteration

    def on_step(self, update: Any) -> None:
        if update.iteration == self.iteration:
            raise pt.StopTraining


def chain(runs: Runs) -> dict[str, Any]:
    """A plan for two nodes and its inputs."""
    plan = pt.load_plan(runs.plan(TINY, trees(5)["cut in two"]))
    profile, cluster = pt.load_profile(runs.profile(TINY)), pt.load_cluster(runs.cluster)
    inputs = {"plan": plan, "profile": profile, "cluster": cluster, "trust_code": True}
    return {**inputs, "folder": runs.folder / "out", "testbed": "none"}


def test_other_phases_of_a_strategy_that_decides_online_are_another_plan(runs: Runs) -> None:
    heard, (phase,) = Heard(), chain(runs)["plan"].phases
    training: Any = SimpleNamespace(on_time_estimate=[], on_epoch=[], on_other_phases=[])
    CallbackList([heard]).attach(training, lambda: None)  # type: ignore[arg-type,return-value]
    training.on_other_phases[0](7, [phase])
    (change,) = heard.of("on_replan")
    assert (change.iteration, change.nodes) == (7, tuple(phase.nodes()))


def test_callbacks_hear_of_every_step_evaluation_and_epoch(runs: Runs) -> None:
    heard = Heard()
    outcome = pt.run(**chain(runs), iterations=4, callbacks=[heard])

    names = [name for name, _ in heard.events]
    assert names == ["on_start", *["on_step"] * 4, "on_evaluation", "on_epoch", "on_end"]
    (start,), (status,), (end,) = heard.of("on_start"), heard.of("on_epoch"), heard.of("on_end")
    assert (start.iteration, start.iterations, start.folder) == (0, 4, runs.folder / "out")
    assert (start.plan.model, start.options["iterations"]) == (TINY, 4)
    assert [update.iteration for update in heard.of("on_step")] == [1, 2, 3, 4]
    assert status.losses[-1] == pytest.approx(sum(update.loss for update in heard.of("on_step")) / 4)
    assert heard.of("on_evaluation") == [outcome.evaluation]
    assert end is outcome


def test_a_callback_stops_a_training_which_can_be_resumed(runs: Runs) -> None:
    from palmette.cli import execute

    outcome = pt.run(**chain(runs), iterations=6, callbacks=[StopAt(2)])

    assert outcome.ended == "stopped"
    assert 2 <= outcome.iterations < 6
    assert execute(["run", "--resume", str(runs.folder / "out"), "--quiet"]) == 0
    assert json.loads((runs.folder / "out" / "run.json").read_text())["iterations"] == 6


def test_an_error_in_a_callback_ends_the_run_in_one_line_and_nobody_is_left(runs: Runs) -> None:
    class Broken:
        def on_step(self, update: Any) -> None:
            raise ValueError("no disk")

    heard = Heard()
    with hired() as crews, pytest.raises(pt.RunError) as caught:
        pt.run(**chain(runs), iterations=4, callbacks=[Broken(), heard])

    line = str(caught.value)
    assert line.startswith("callback Broken.on_step failed: ValueError: no disk (")
    assert f"{Path(__file__).name}:" in line
    assert "\n" not in line
    assert [end.ended for end in heard.of("on_end")] == [line]
    assert json.loads((runs.folder / "out" / "run.json").read_text())["ended"] == line
    assert not any(alive(pid) for crew in crews for pid in crew.pids.values())


def test_ctrl_c_in_a_callback_is_still_ctrl_c(runs: Runs) -> None:
    class Interrupted:
        def on_step(self, update: Any) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    heard = Heard()
    with hired() as crews, pytest.raises(KeyboardInterrupt):
        pt.run(**chain(runs), iterations=4, callbacks=[Interrupted(), heard])
    assert [end.ended for end in heard.of("on_end")] == ["KeyboardInterrupt"]
    assert not any(alive(pid) for crew in crews for pid in crew.pids.values())


def replicas(runs: Runs) -> dict[str, Any]:
    runs.cluster.write_text(CLUSTER)
    made = chain(runs)
    fields = made["plan"].model_dump(mode="json") | {"strategy": "hybrid", "asked": ASKED}
    plan = Plan.model_validate(fields).model_copy(update={"phases": (REPLICAS,), "batch": REPLICAS.batch})
    return made | {"plan": plan}


class Killer:
    """Kills a node's worker after three iterations."""

    def __init__(self, crews: list[Any]) -> None:
        self.crews = crews

    def on_step(self, update: Any) -> None:
        if update.iteration == 3 and len(self.crews) == 1:
            os.kill(self.crews[0].pids["cloud"], signal.SIGKILL)


@pytest.mark.slow
def test_callbacks_hear_of_a_lost_node_and_of_the_new_plan(runs: Runs) -> None:
    heard = Heard()
    with hired() as crews:
        outcome = pt.run(**replicas(runs), iterations=12, callbacks=[heard, Killer(crews)])

    assert (outcome.ended, outcome.iterations) == ("done", 12)
    (fault,), (change,) = heard.of("on_fault"), heard.of("on_replan")
    assert fault.node == "cloud"
    assert "cloud" not in change.nodes
    assert len(heard.of("on_start")) == len(heard.of("on_end")) == 1


def test_a_callback_may_stop_a_run_that_has_lost_a_node(runs: Runs) -> None:
    class GiveUp:
        def on_fault(self, fault: pt.RunError) -> None:
            raise pt.StopTraining

    with hired() as crews:
        outcome = pt.run(**replicas(runs), iterations=12, callbacks=[GiveUp(), Killer(crews)])
    assert outcome.ended == "stopped"
    assert len(crews) == 1


def test_what_is_no_callback_is_refused_before_anything_starts(runs: Runs) -> None:
    for wrong in (print, StopAt, object()):
        with pytest.raises(pt.InputError, match=r"callbacks: .*expected an object with at least one of on_start, "):
            pt.run(**chain(runs), iterations=4, callbacks=[wrong])
    assert not (runs.folder / "out").exists()


def test_the_base_class_hears_everything_and_does_nothing() -> None:
    assert {"on_step", "on_epoch", "on_evaluation", "on_replan", "on_fault"} < set(EVENTS)
    assert all(getattr(pt.RunCallback(), event)(None) is None for event in EVENTS)
