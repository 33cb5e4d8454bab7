"""Pre-training: what is measured, who is left out, and that training goes on from there."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from safetensors.torch import load_file
from torch import nn

import palmette as pt
from palmette.cli import execute as palmette
from palmette.control.pretrain import device_runs, pretrainer
from palmette.control.pretrain.device_runs import folder_name
from palmette.control.pretrain.power import mean_watts
from palmette.control.pretrain.pretrainer import Pretrainer
from palmette.control.pretrain.request import PretrainRequest, pretrain_options
from palmette.control.pretrain.step_timer import StepCounts
from palmette.errors import InputError, RunError
from palmette.measure.bandwidth import MeasuredLink
from palmette.runtime.engines.probes import BuildTime
from palmette.runtime.training.job import ProgressUpdate, RunOutcome
from palmette.spec.cluster import Cluster
from palmette.spec.files import load, validated
from palmette.spec.measurements import Measurements
from palmette.spec.power import PowerModel
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from tests.runtime.trees import DATA

CLUSTER = """\
nodes:
  fast: {tier: edge, hardware: nuc-i3-7100u-2}
  slow: {tier: edge, hardware: raspberry-pi-4}
links:
  - {between: [fast, slow], bandwidth: 100 Mbit/s}
"""
SHORT = StepCounts(warmup=2, timed=3, counted=2)


class FakeRun:
    """Stands for a run: steps of a known length, or a worker that dies."""

    step_s = {"fast": 0.1, "slow": 0.5}
    broken: tuple[str, ...] = ()
    broken_beside: tuple[str, ...] = ()

    def __init__(self, plan: Any, request: Any, folder: Path, resumed: None) -> None:
        assert resumed is None
        self.phase, self.request, self.folder = plan.phases[0], request, folder
        self.link_bps = plan.inputs.cluster.links[0].bandwidth_bps if plan.inputs.cluster.links else None

    def run(self, watch: Any, ready: Any) -> RunOutcome:
        (instance,) = self.phase.instances
        if instance.node in (self.broken if self.phase.server == instance.node else self.broken_beside):
            raise RunError(f"node {instance.node}: its worker was killed by SIGKILL")
        stopped: list[bool] = []
        ready(SimpleNamespace(stop=lambda: stopped.append(True)))
        took_s = self.step_s[instance.node]
        if self.phase.server != instance.node:
            took_s += 0.01 + 8e6 / self.link_bps
        many = 0
        while many < self.request.iterations and not stopped:
            many += 1
            watch(ProgressUpdate(many, self.request.iterations, 0, 1.0, 32, 0.0, iteration_s=took_s))
        seconds = {instance.node: {"whole_s": many * took_s}}
        return RunOutcome(iterations=many, energy_j=5.0 * many * took_s, node_seconds=seconds)


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_runs, "TrainingSession", FakeRun)
    monkeypatch.setattr(pretrainer, "measure_build_time", lambda *_: BuildTime(1.5, 0.5, 0.2))
    monkeypatch.setattr(pretrainer, "measure_bandwidth", lambda *_: MeasuredLink(1e8, 1e8, 0.001))
    monkeypatch.setattr(FakeRun, "broken", ())


def cluster(text: str = CLUSTER) -> Cluster:
    return fill_hardware_defaults(Cluster.model_validate(yaml.safe_load(text)))


def pretrained(folder: Path, warned: list[str] | None = None, text: str = CLUSTER, **request: Any) -> Measurements:
    asked = PretrainRequest(**{"model": "lenet5", "step_counts": SHORT, "steps": 1000} | request)
    warnings = [] if warned is None else warned
    return Pretrainer(cluster(text), asked, folder, lambda _: None, warnings.append).run()


@pytest.mark.usefixtures("faked")
class TestTable:
    def test_steps_build_power_and_predicted_factors(self, tmp_path: Path) -> None:
        made = pretrained(tmp_path)
        fast, slow = made.devices["fast"], made.devices["slow"]
        assert (fast.step_s, slow.step_s) == (0.1, 0.5)
        assert (fast.build_s, slow.build_s) == pytest.approx(
            (1.5 / 2 + 0.1, 1.5 * 2.5 + 0.5)
        )  # over this machine's step of 0.2 s, and the first step
        assert (fast.power_w, slow.power_w) == pytest.approx((5.0, 5.0))
        assert (fast.time_alpha, fast.time_beta) == (1.0, 1.0)
        sent_s = 2 * 8 * made.model_extra["parameter_bytes"] / 1e8
        assert slow.step_s * slow.time_alpha * slow.time_beta == pytest.approx(0.5 + 0.002 + sent_s)
        assert slow.model_extra["origin"]["factors"].startswith("predicted")
        assert slow.model_extra["origin"]["power"].startswith("modelled")

    def test_the_steps_taken_count(self, tmp_path: Path) -> None:
        made = pretrained(tmp_path)
        assert (made.model, made.batch, made.steps) == ("lenet5", 32, 1000 - 7)
        assert made.model_extra["pretrained_steps"] == 7

    def test_several_bandwidths_are_tried_and_fitted(self, tmp_path: Path) -> None:
        slow = pretrained(tmp_path, bandwidths_bps=(1e9, 1e8, 1e7)).devices["slow"]
        assert slow.time_alpha == pytest.approx(0.51 / 0.5)
        assert slow.step_s * slow.time_alpha * slow.time_beta == pytest.approx(0.51 + 8e6 / 1e8)
        assert slow.model_extra["origin"]["factors"] == "fitted from 3 bandwidths"

    @pytest.mark.parametrize(("rates", "fixed_s"), [((), 0.002), ((1e9, 1e8), 0.01)])
    def test_factors_of_the_way_to_any_faster_device(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rates: tuple[float, ...], fixed_s: float
    ) -> None:
        ways = {frozenset(("fast", "slow")): 1e8, frozenset(("fast", "third")): 1e8, frozenset(("slow", "third")): 1e7}
        monkeypatch.setattr(
            pretrainer,
            "measure_bandwidth",
            lambda a, b, *_: MeasuredLink(*[ways[frozenset((a, b))]] * 2, 0.001),
        )
        monkeypatch.setattr(FakeRun, "step_s", {"fast": 0.1, "slow": 0.5, "third": 0.7})
        third = "  third: {tier: edge, hardware: raspberry-pi-4}\nlinks:\n"
        third += "  - {between: [slow, third], bandwidth: 10 Mbit/s}\n"
        made = pretrained(tmp_path, text=CLUSTER.replace("links:\n", third), bandwidths_bps=rates)
        assert {name: list(each.by_server) for name, each in made.devices.items()} == {
            "fast": [],
            "slow": [],
            "third": ["slow"],
        }
        bits = 8e6 if rates else 2 * 8 * made.model_extra["parameter_bytes"]
        device = made.devices["third"]
        assert 0.7 * device.time == pytest.approx(0.7 + fixed_s + bits / 1e8)
        assert 0.7 * device.by_server["slow"].time == pytest.approx(0.7 + fixed_s + bits / 1e7)

    def test_a_device_that_fails_is_left_out_by_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FakeRun, "broken", ("slow",))
        warned: list[str] = []
        assert list(pretrained(tmp_path, warned).devices) == ["fast"]
        assert warned == ["slow is left out: node slow: its worker was killed by SIGKILL"]

    def test_a_device_that_fails_beside_the_server_is_left_out_by_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(FakeRun, "broken_beside", ("slow",))
        warned: list[str] = []
        assert list(pretrained(tmp_path, warned, bandwidths_bps=(1e9, 1e8)).devices) == ["fast"]
        assert warned == ["slow is left out: node slow: its worker was killed by SIGKILL"]

    def test_a_way_on_which_nothing_comes_through_is_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object) -> MeasuredLink:
            raise RunError("the transfer between fast and slow failed")

        monkeypatch.setattr(pretrainer, "measure_bandwidth", fails)
        warned: list[str] = []
        slow = pretrained(tmp_path, warned).devices["slow"]
        assert warned == ["fast and slow are treated as unconnected: the transfer between fast and slow failed"]
        assert slow.model_extra["origin"]["factors"] == "unknown: it cannot talk with fast"

    def test_one_bandwidth_is_too_few_to_fit(self, tmp_path: Path) -> None:
        warned: list[str] = []
        slow = pretrained(tmp_path, warned, bandwidths_bps=(1e9,)).devices["slow"]
        assert warned == ["one --bandwidth is too few to fit the factors: they are predicted"]
        assert slow.model_extra["origin"]["factors"].startswith("predicted")

    def test_training_goes_on_after_the_steps_of_the_server_that_is_chosen(self, tmp_path: Path) -> None:
        made = pretrained(tmp_path).model_dump()
        made["devices"]["slow"]["pretrained_steps"] = 5  # it was warm two steps sooner
        made["devices"]["slow"]["power_w"] = 1.0
        decision = pt.plan("cluster", measurements=Measurements.model_validate(made), goal="power").decision
        assert decision["devices"] == ["slow"]
        assert decision["init"].endswith("slow/model.safetensors")
        assert decision["steps"] == 1000 - 5

    def test_none_is_left(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(FakeRun, "broken", ("fast", "slow"))
        monkeypatch.setattr(
            pretrainer, "measure_build_time", None
        )  # nor is anything built, which takes long with large batches
        with pytest.raises(pt.Infeasible, match="no device could train; fast: node fast"):
            pretrained(tmp_path)


def test_power_must_be_known(tmp_path: Path) -> None:
    bare = Cluster.model_validate({"nodes": {"a": {"tier": "edge", "host": "local"}}})
    with pytest.raises(pt.InputError, match=r"nodes\.a\.power: missing: expected idle and busy watts"):
        Pretrainer(bare, PretrainRequest(model="lenet5"), tmp_path, lambda _: None, lambda _: None)


def test_power_is_taken_while_counters_are_read(tmp_path: Path) -> None:
    model = PowerModel(intercept_w=1.0, coefficients={}, mean_error=0.0, samples=5)
    request = PretrainRequest(model="lenet5", power=model, step_counts=StepCounts(counted=0))
    with pytest.raises(pt.InputError, match="counted: 0: power is measured during these steps"):
        Pretrainer(cluster(), request, tmp_path, lambda _: None, lambda _: None)


def test_a_power_model_of_another_machine_is_refused_before_anything_trains(tmp_path: Path) -> None:
    model = PowerModel(intercept_w=1.0, coefficients={"f_cp": 1.0}, mean_error=0.0, samples=5)
    local = Cluster.model_validate({"nodes": {"a": {"tier": "edge", "host": "local"}}})
    with pytest.raises(pt.InputError, match="power: f_cp: this machine has no such counter"):
        Pretrainer(local, PretrainRequest(model="lenet5", power=model), tmp_path, lambda _: None, lambda _: None)


def test_any_name_makes_a_folder() -> None:
    assert folder_name("jetson tx1") == "jetson tx1"
    assert folder_name("../a/b") == "%2E%2E%2Fa%2Fb"


def test_a_power_model_needs_its_counters() -> None:
    model = PowerModel(intercept_w=1.0, coefficients={"u_cpu": 10.0, "u_gpu": 1.0}, mean_error=0.01, samples=10)
    assert mean_watts(model, [{"u_cpu": 0.5, "u_gpu": 1.0}, {"u_cpu": 0.7, "u_gpu": 1.0}]) == pytest.approx(8.0)
    with pytest.raises(pt.InputError, match="u_gpu"):
        mean_watts(model, [{"u_cpu": 0.5}])


class TestCommandLine:
    def refused(self, capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
        assert palmette([str(each) for each in arguments]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        (line,) = said.err.splitlines()
        return line

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            (("--bandwidth", "fast"), "--bandwidth: fast: expected a bandwidth with a unit"),
            (("--meter", "guess"), "--meter: guess: expected one of zeus"),
            (("--data", "nowhere"), "nowhere"),
            (("--testbed", "moon"), "--testbed: moon: no such testbed"),
        ],
    )
    def test_bad_options(self, tmp_path: Path, capsys: Any, more: tuple[str, ...], expected: str) -> None:
        file = tmp_path / "c.yaml"
        file.write_text(CLUSTER)
        assert expected in self.refused(
            capsys, "pretrain", "lenet5", "--cluster", file, "-o", tmp_path / "m.json", *more
        )

    def test_no_such_network(self, tmp_path: Path, capsys: Any) -> None:
        file = tmp_path / "c.yaml"
        file.write_text(CLUSTER)
        assert "lenet6" in self.refused(capsys, "pretrain", "lenet6", "--cluster", file, "-o", tmp_path / "m.json")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_from_pre_training_to_a_training_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(
        CLUSTER.replace("hardware: nuc-i3-7100u-2", "hardware: raspberry-pi-3, source: {samples: 100}")
    )
    short = ["--warmup", "2", "--timed", "3", "--counted", "2", "--steps", "20", "--quiet"]
    assert palmette(["pretrain", "lenet5", "--cluster", "c.yaml", "-o", "m.json", *short]) == 0
    made = load(Measurements, "m.json")
    assert list(made.devices) == ["fast", "slow"]
    assert made.devices["slow"].model_extra["bandwidth_bps"]["fast"] == pytest.approx(1e8, rel=0.5)
    inputs = ["--profile", "m/profile.json", "--cluster", "c.yaml"]
    assert palmette(["plan", "cluster", "--measurements", "m.json", *inputs, "-o", "plan.json"]) == 0
    decision = json.loads(Path("plan.json").read_text())["decision"]
    assert decision["init"] == f"m/{decision['parameter_server']}/model.safetensors"
    assert decision["steps"] == 13
    assert palmette(["run", "plan.json", "--quiet", "-o", "run"]) == 0
    left = json.loads(Path("run/run.json").read_text())
    assert (left["iterations"], left["options"]["init"]) == (13, decision["init"])
    before, after = load_file(decision["init"]), load_file("run/model.safetensors")
    assert before.keys() == after.keys()
    assert any((before[name] != after[name]).any() for name in before)


def test_nodes_that_all_name_data_need_no_other(tmp_path: Path) -> None:
    """The digits do not fit a network that takes five numbers."""
    named = yaml.safe_load(CLUSTER)
    for node in named["nodes"].values():
        node["source"] = {"samples": 54, "data": DATA}
    request = PretrainRequest(model="tests.control.pretrain.test_pretrain:five_numbers", batch=4, step_counts=SHORT)
    made = Pretrainer(
        fill_hardware_defaults(validated(Cluster, named)), request, tmp_path, lambda _: None, lambda _: None
    )
    assert made.cluster.nodes["fast"].source.data == DATA
    del named["nodes"]["slow"]["source"]["data"]
    with pytest.raises(InputError, match="digits: holds images"):
        Pretrainer(fill_hardware_defaults(validated(Cluster, named)), request, tmp_path, lambda _: None, lambda _: None)


def five_numbers() -> nn.Module:
    made = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    made.input_shape = (5,)
    return made


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_recipe_brings_its_own_data_and_loss(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    short = ["--warmup", "2", "--timed", "3", "--counted", "2", "--steps", "20", "--batch", "8", "--quiet"]
    recipe = ["--recipe", "tests.runtime.recipes:regression"]
    files = ["--cluster", str(tmp_path / "c.yaml"), "-o", str(tmp_path / "m.json")]
    assert palmette(["pretrain", *recipe, *files, *short]) == 0
    assert load(Measurements, tmp_path / "m.json").model == "tests.runtime.recipes:regression"


def test_a_recipe_is_pre_trained_with_its_optimizer() -> None:
    recipe = "tests.runtime.recipes:decayed"
    own = pretrain_options(recipe, optimizer=None, lr=None, seed=3)
    assert (own.lr, own.groups, own.accumulate, own.seed) == (0.01, {"*.bias": {"weight_decay": 0}}, 2, 3)
    assert not isinstance(own.optimizer, str)
    assert (own.schedule, own.warmup) == ("constant", 0)  # those of the whole training
    given = pretrain_options(recipe, optimizer="momentum", lr=0.2, seed=0)
    assert (given.optimizer, given.lr, given.groups) == ("momentum", 0.2, {})
    assert pretrain_options("lenet5", optimizer=None, lr=None, seed=0).optimizer == "sgd"


@pytest.mark.usefixtures("faked")
def test_the_command_takes_the_recipes_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    usual = FakeRun.__init__

    def noted(self: FakeRun, plan: Any, request: Any, folder: Path, resumed: None) -> None:
        seen.append(request.options)
        usual(self, plan, request, folder, resumed)

    monkeypatch.setattr(FakeRun, "__init__", noted)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    short = ["--steps", "20", "--warmup", "2", "--timed", "3", "--counted", "2", "--quiet"]
    arguments = ["--recipe", "tests.runtime.recipes:decayed", "--cluster", str(tmp_path / "cluster.yaml"), *short]
    assert palmette(["pretrain", *arguments, "-o", str(tmp_path / "m.json")]) == 0
    assert {options.lr for options in seen} == {0.01}
