"""The Python front door: load, plan, estimate."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import palmette as pt
from palmette.cli.options import reason_of
from palmette.errors import ArgumentFault, Fault, too_late
from palmette.plan.core.comparison import closest_to_goal
from palmette.spec.goal import Goal
from palmette.spec.plan import Inputs
from tests.plan.problems import profile, three_tiers


@pytest.fixture
def plan():
    return pt.plan("all-edge", profile=profile(), cluster=three_tiers(), batch=10)


def test_everything_public_has_a_docstring_and_types() -> None:
    for name in pt.__all__:
        thing = getattr(pt, name)
        assert inspect.getdoc(thing), name
        if inspect.isfunction(thing):
            signature = inspect.signature(thing)
            assert signature.return_annotation is not inspect.Signature.empty
            assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


@pytest.mark.parametrize("name", ["compare", "estimate", "pilot", "plan", "profile", "run", "what_if"])
def test_every_parameter_is_documented(name: str) -> None:
    described = inspect.getdoc(getattr(pt, name)) or ""
    parameters = inspect.signature(getattr(pt, name)).parameters
    assert [each for each in parameters if f"\n    {each}: " not in described] == []


def test_the_files_of_the_formats_are_read(tmp_path: Path, plan) -> None:
    cluster, measured = three_tiers(), profile()
    (tmp_path / "cluster.yaml").write_text(cluster.to_yaml())
    (tmp_path / "profile.json").write_text(measured.to_json())
    (tmp_path / "plan.json").write_text(plan.to_json())

    assert pt.load_cluster(tmp_path / "cluster.yaml") == cluster
    assert pt.load_profile(str(tmp_path / "profile.json")) == measured
    assert pt.load_plan(tmp_path / "plan.json") == plan


def test_a_node_that_names_hardware_gets_its_memory_and_power(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "nodes:\n  a: {tier: device, hardware: raspberry-pi-3}\n"
        "  b: {tier: device, hardware: raspberry-pi-3, memory: 512 MiB, power: {idle: 1 W, busy: 2 W}}\n"
    )
    nodes = pt.load_cluster(tmp_path / "c.yaml").nodes
    assert nodes["a"].memory_bytes == 2**30
    assert nodes["a"].power.busy_w > nodes["a"].power.idle_w > 0
    assert (nodes["b"].memory_bytes, nodes["b"].power.busy_w) == (2**29, 2.0)


def test_an_estimate_uses_what_the_plan_carries(plan) -> None:
    assert pt.estimate(plan).iteration_s == plan.estimate.iteration_s


def test_what_is_given_goes_before_what_the_plan_carries(plan) -> None:
    slower = profile(phone=40, server=50, cloud=1)
    assert pt.estimate(plan, profile=slower).iteration_s > plan.estimate.iteration_s


def test_an_estimate_without_inputs_names_what_is_missing(plan) -> None:
    bare = plan.model_copy(update={"inputs": None})
    with pytest.raises(pt.InputError) as caught:
        pt.estimate(bare)
    assert [fault.field for fault in caught.value.faults] == ["profile", "cluster"]
    half = plan.model_copy(update={"inputs": Inputs(profile=profile())})
    with pytest.raises(pt.InputError) as caught:
        pt.estimate(half)
    assert [fault.field for fault in caught.value.faults] == ["cluster"]


def test_the_timeline_comes_when_asked_for(plan) -> None:
    assert pt.estimate(plan).timeline is None
    operations = pt.estimate(plan, timeline=True).timeline
    assert [(step.node, step.op) for step in operations] == [
        ("phone", "send"),
        ("server", "receive"),
        ("server", "forward"),
        ("server", "backward"),
        ("server", "update"),
    ]


@pytest.mark.timing
def test_a_plan_says_how_long_planning_took_and_what_it_was_for(plan) -> None:
    assert 0 <= plan.plan_s < 10
    assert (plan.inputs.profile, plan.inputs.cluster) == (profile(), three_tiers())


@pytest.mark.parametrize(("kind", "code"), [(pt.InputError, 2), (pt.Infeasible, 3), (pt.RunError, 1)])
def test_errors_have_one_base_and_an_exit_code(kind: type[pt.PalmetteError], code: int) -> None:
    assert issubclass(kind, pt.PalmetteError)
    assert kind.exit_code == code


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"lr": -1}, "lr: -1: expected a number above 0"),
        ({"optimizer": "rmsprob"}, "optimizer: rmsprob: no such optimizer; did you mean rmsprop?"),
        ({"iterations": 0}, "iterations: 0: expected at least 1"),
        ({"iterations": 1, "epochs": 1}, "epochs: 1: expected either epochs or iterations, not both"),
        ({"dilation": 0.5}, "dilation: 0.5: expected a number from 1 to 1e+06"),
        ({"input_shape": ()}, "input_shape: (): expected whole numbers of 1 or more"),
        ({"drift": 0.0}, "drift: 0.0: expected a number of at least 0.05"),
        ({"compress": "shrink"}, "compress: shrink: expected prune or distill"),
        ({"transport": "tsl"}, "transport: tsl: no such transport; expected one of gloo, tls"),
    ],
)
def test_a_run_refuses_an_argument_by_its_python_name(tmp_path: Path, plan, arguments, line: str) -> None:
    with pytest.raises(pt.InputError) as caught:
        pt.run(plan, tmp_path / "run", **arguments)
    assert str(caught.value) == line
    assert not (tmp_path / "run").exists()


def unmet(goal: Goal, strategy: str = "all-edge") -> pt.PalmetteError:
    with pytest.raises(pt.PalmetteError) as caught:
        pt.plan(strategy, profile=profile(), cluster=three_tiers(), goal=goal)
    return caught.value


def test_a_goal_that_cannot_be_met_is_named_by_argument_here_and_by_flag_there() -> None:
    error = unmet(Goal(iteration_deadline_s=1e-6))
    assert isinstance(error, pt.Infeasible)
    assert str(error).startswith("iteration_deadline_s: 1e-06 s: cannot be met; the least that can be had is ")
    assert reason_of(error) == str(error).replace("iteration_deadline_s", "--iteration-deadline")


def test_an_argument_to_use_instead_is_named_so_too() -> None:
    error = unmet(Goal(deadline_s=1))
    expected = "all-edge does not decide how long to train; expected {} or neither"
    assert str(error) == f"deadline_s: 1 s: {expected.format('iteration_deadline_s')}"
    assert reason_of(error) == f"--deadline: 1 s: {expected.format('--iteration-deadline')}"


def test_one_answer_of_many_strategies_names_arguments_and_flags() -> None:
    reasons = {
        "a": pt.Infeasible(ArgumentFault("loss", "0.1", "cannot be met")),
        "b": pt.Infeasible("no loss"),
        "c": pt.Infeasible(ArgumentFault("loss", "0.1", "cannot be met")),
    }
    assert str(closest_to_goal(reasons)) == "a, c: loss: 0.1: cannot be met; b: no loss"
    assert reason_of(closest_to_goal(reasons)) == "a, c: --loss: 0.1: cannot be met; b: no loss"
    late = too_late("deadline_s", 1.0, 2.0)
    assert reason_of(closest_to_goal({**reasons, "d": late})) == reason_of(late) + ", by d"


def test_the_command_line_names_the_flag_instead() -> None:
    faults = [
        ArgumentFault("input_shape", 0, "expected more"),
        ArgumentFault("deadline_s", 0, "expected more"),
        Fault("phases[0].sync", "x", "expected step"),
    ]
    lines = reason_of(pt.InputError(faults)).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["--input-shape", "--deadline", "phases[0].sync"]
