"""Gu et al.'s cases on this machine, with a stand-in for what would take minutes: what is trained, kept and told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palmette.cost.estimate import evaluator
from palmette.errors import InputError, RunError
from palmette.measure.bandwidth import MeasuredLink as MeasuredPath
from palmette.measure.profiling import profile_network
from palmette.reproduce.cluster import figures, paper
from palmette.reproduce.cluster import measured as module
from palmette.reproduce.cluster.catalogue import declared
from palmette.reproduce.cluster.measured import MeasuredCases, scaled_to_catalogue
from palmette.reproduce.hiertrain.sensitivity import scaled
from palmette.runtime.sync.base import MeasuredTimes as Took
from palmette.runtime.training.job import RunOutcome
from palmette.spec.measurements import Measurements
from palmette.spec.profile import Profile
from palmette.zoo.models import load_network

SLOWER = 4.5  # this machine beside a Jetson TX2
OVERHEAD = 1.02  # what a real training takes beside the clock's


def layers(name: str) -> Profile:
    """This machine as slow as a multiple of a Jetson TX2."""
    found = profile_network(load_network(paper.MODELS[name]), paper.machines(paper.MBPS[0]))
    here = scaled(found.nodes["jtx2"], SLOWER)
    return found.model_copy(update={"nodes": dict.fromkeys(found.nodes, here)})


class FakePretrainer:
    """Every device takes two hundredths more than it should."""

    def __init__(self, cluster: Any, request: Any, folder: Path, progress: Any, warn: Any) -> None:
        self.prices = evaluator(request.profile, cluster)

    def run(self) -> Measurements:
        alone = {name: declared(name, self.prices) for name in paper.MACHINES}
        devices = {
            name: {"step_s": OVERHEAD * each.step_s, "build_s": 1.0, "power_w": each.power_w}
            for name, each in alone.items()
        }
        return Measurements.model_validate({"model": "cifar10", "steps": paper.STEPS, "devices": devices})


class FakeRun:
    """A run that takes as much more."""

    trained: list[tuple[tuple[str, ...], float, float]] = []

    def __init__(self, plan: Any, profile: Any, cluster: Any, request: Any, folder: Path) -> None:
        self.members = tuple(instance.node for instance in plan.phases[0].instances)
        self.iteration_s = OVERHEAD * evaluator(profile, cluster).price(plan.phases[0]).iteration_s
        self.trained.append((self.members, cluster.links[0].bandwidth_bps / 1e6, request.dilation))
        self.folder = folder

    def run(self, watch: Any, ready: Any) -> RunOutcome:
        lines = [
            {"iteration": k, "node": name, "instance": name, "op": op, "start_s": k + at, "end_s": k + at + 0.5}
            for k in range(8)
            for name in self.members
            for at, op in ((0.0, "forward"), (0.5, "send"))
        ]
        (self.folder / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return RunOutcome(iterations=8, measured={0: Took(self.iteration_s)})


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_layers", layers)
    monkeypatch.setattr(module, "Pretrainer", FakePretrainer)
    monkeypatch.setattr(module, "prepare", FakeRun)
    monkeypatch.setattr(
        module,
        "measure_bandwidth",
        lambda _, __, cluster, ___: MeasuredPath(*[cluster.links[0].bandwidth_bps] * 2, 0.0),
    )
    monkeypatch.setattr(FakeRun, "trained", [])


def test_a_step_lasts_as_the_catalogue_has_it() -> None:
    catalogue = profile_network(load_network("cifar10"), paper.machines(1000.0))
    found = scaled_to_catalogue(layers("CIFAR10"), catalogue)
    for name in paper.MACHINES:
        steps_s = [declared(name, evaluator(each, paper.machines(1000.0))).step_s for each in (found, catalogue)]
        assert steps_s[0] == pytest.approx(steps_s[1])


def test_power_is_that_of_the_time_in_which_all_train() -> None:
    def step(node: str, iteration: int, start_s: float, end_s: float, op: str = "forward") -> dict[str, Any]:
        return {
            "iteration": iteration,
            "node": node,
            "instance": node,
            "op": op,
            "start_s": 5 + start_s,
            "end_s": 5 + end_s,
        }

    quick = [step("jtx2", k, k, k + 1.0) for k in range(7)]  # up to 7 s, then it waits for the other
    slow = [each for k in range(3) for each in (step("jtx1", 10 + k, 3 * k, 3 * k + 1.5),)]
    slow += [step("jtx1", 10 + k, 3 * k + 1.5, 3 * k + 3, op="send") for k in range(3)]
    found = module.power_while_all_train_w([*quick, *slow], paper.machines(1000.0))
    assert found == pytest.approx(15.0 + (2.5 + 10.0) / 2)
    waiting = [step("jtx2", 7 + k, 20.0 + k, k + 21.0) for k in range(7)]  # after the end of an epoch
    assert module.power_while_all_train_w([*quick, *slow, *waiting], paper.machines(1000.0)) == pytest.approx(found)


@pytest.mark.usefixtures("faked")
class TestMeasuredCases:
    def test_what_can_be_trained_is_and_the_rest_simulated(self, tmp_path: Path) -> None:
        cases = list(MeasuredCases(tmp_path, lambda _: None).cases("CIFAR10"))
        assert [case.mbps for case in cases] == list(paper.MBPS)
        for case in cases:
            measured = {members for members, how in case.how.items() if how == "measured"}
            assert {("jtx2",), ("jtx1",)} <= measured
            assert not any("desktop" in members for members in measured)  # it is 13 times as fast as this machine
        assert cases[0].how["jtx2", "jtx1"] == "measured"
        assert cases[2].how["jtx2", "jtx1"] == "simulated"  # it would take longer than two minutes
        assert all(dilation <= module.MOST_DILATION for _, _, dilation in FakeRun.trained)

    def test_what_would_train_longer_than_asked_for_is_simulated(self, tmp_path: Path) -> None:
        cases = list(MeasuredCases(tmp_path, lambda _: None, longest_s=20.0).cases("CIFAR10"))
        assert [case.how["jtx2", "jtx1"] for case in cases] == ["measured", "simulated", "simulated"]

    def test_figures_are_those_of_the_training(self, tmp_path: Path) -> None:
        case = next(MeasuredCases(tmp_path, lambda _: None).cases("CIFAR10"))
        step_s = case.alone["jtx1"].step_s  # as much too long by the pre-training
        assert case.truth["jtx1",].time_s == pytest.approx(1.0 + paper.STEPS * step_s)
        assert case.truth["jtx1",].power_w == pytest.approx((2.5 + 10.0) / 2)  # it computes half of the time
        case = figures.evaluate_case("CIFAR10", case)
        assert case["time_error"]["jtx1"] == pytest.approx(0.0, abs=1e-9)
        assert case["time_error"]["desktop"] == pytest.approx(OVERHEAD - 1, rel=0.01)

    def test_a_device_alone_is_trained_once(self, tmp_path: Path) -> None:
        list(MeasuredCases(tmp_path, lambda _: None).cases("CIFAR10"))
        alone = [members for members, _, _ in FakeRun.trained if len(members) == 1]
        assert sorted(alone) == [("jtx1",), ("jtx2",)]

    def test_it_goes_on_where_it_was_stopped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[str] = []
        first = next(MeasuredCases(tmp_path, told.append).cases("CIFAR10"))
        assert told[:2] == ["CIFAR10/layers", "CIFAR10/pretrained"]
        told.clear()
        monkeypatch.setattr(module, "_layers", None)
        cases = MeasuredCases(tmp_path, told.append).cases("CIFAR10")
        assert next(cases) == first
        assert told == []
        next(cases)
        assert told == [f"links/{pair}-100" for pair in ("desktop-jtx2", "desktop-jtx1", "jtx2-jtx1")] + [
            "CIFAR10/jtx2-jtx1-100"
        ]

    def test_a_device_that_fails_is_the_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = FakePretrainer.run

        def without_one(self: FakePretrainer) -> Measurements:
            made = whole(self)
            return made.model_copy(update={"devices": {n: d for n, d in made.devices.items() if n != "jtx1"}})

        monkeypatch.setattr(FakePretrainer, "run", without_one)
        with pytest.raises(RunError, match="jtx1 could not be pre-trained on CIFAR10"):
            next(MeasuredCases(tmp_path, lambda _: None).cases("CIFAR10"))

    def test_a_piece_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        file = tmp_path / "CIFAR10/pretrained.json"
        file.parent.mkdir()
        file.write_text("{}")
        with pytest.raises(InputError, match=r"pretrained\.json"):
            list(MeasuredCases(tmp_path, lambda _: None).cases("CIFAR10"))
