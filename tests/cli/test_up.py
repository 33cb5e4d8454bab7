"""palmette up on the command line: what is refused, and the whole way from one file to a report."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from palmette.cli.show.comparison import show_comparison
from palmette.control.up import steps
from palmette.control.up.inputs import read_inputs
from palmette.plan.core.comparison import compare, planned
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Plan
from tests.cli.test_init import Terminal
from tests.cli.test_process import PALMETTE
from tests.cli.world import World
from tests.plan.problems import goal, profile, three_tiers

TRAINING = """\
cluster:
  nodes:
    phone: {tier: device, hardware: raspberry-pi-4, source: {samples: 600, data: digits}}
    server: {tier: edge, hardware: nuc-i3-7100u-4}
  links: [{between: [phone, server], bandwidth: 20 Mbit/s}]
model: lenet5
data: digits
batch: 32
strategy: all-edge
iterations: 4
output: results
"""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read from or written to the folders of whoever runs the tests."""
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("model: lenet5\n", "", "training.yaml: model: missing: expected either a model or a recipe"),
        ("model: lenet5\n", "model: lenet5\nrecipe: a:b\n", "expected either a model or a recipe"),
        ("iterations: 4", "iterations: 4\nepochs: 2", "expected either epochs or iterations, not both"),
        ("iterations: 4", "iteratoins: 4", "unknown field; did you mean iterations?"),
        ("all-edge", "all-egde", "training.yaml: strategy: all-egde: no such strategy; did you mean all-edge?"),
        ("strategy", "goal: tim\nstrategy", "training.yaml: goal: tim: no such goal; did you mean time?"),
        ("strategy", "engine: rays\nstrategy", "training.yaml: engine: rays: no such engine; did you mean ray?"),
        ("strategy", "goal: cost\nstrategy", "the goal cost needs a price of at least one, such as price: 0.4 EUR/h"),
        ("strategy", "loss: 0.3\nstrategy", "a loss does not say how long to train; expected learning, too"),
        ("strategy", "deadline: 2\nstrategy", "training.yaml: deadline: 2: expected a duration with a unit"),
        ("data: digits\n", "data: my.own:data\n", "my.own:data: would be imported and called; expected --trust-code"),
        (
            "model: lenet5",
            "model: lenet6",
            "training.yaml: model: lenet6: no such network of the zoo; did you mean len",
        ),
        ("data: digits\n", "data: digit\n", "training.yaml: data: digit: no such data set; did you mean digits?"),
        ("tier: edge", "tier: egde", "training.yaml: cluster: nodes.server.tier: egde: expected"),
    ],
)
def test_what_is_wrong_with_the_file_is_one_line(world: World, before: str, after: str, line: str) -> None:
    assert before in TRAINING
    file = world.write("training.yaml", TRAINING.replace(before, after, 1) + "\n")
    (told,) = world.refused("up", file, "-y")
    assert line in told


def test_where_nobody_can_answer_it_does_not_ask(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    (told,) = world.refused("up", world.write("training.yaml", TRAINING))
    assert "--yes" in told


def test_plans_that_cannot_be_chosen_are_told_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    task = Task(profile=profile(2), cluster=three_tiers(), batch=4, goal=goal())
    apart = dict.fromkeys(("federated", "diloco"), "replicas that train apart need other numbers of epochs")
    show_comparison(compare(task, names=["all-edge"]), chosen="all-edge", left_out={**apart, "jalad": "coded outputs"})
    said = capsys.readouterr().out
    assert "→ all-edge" in said
    assert "federated and diloco cannot be chosen: replicas that train apart need other numbers of epochs\n" in said
    assert "jalad cannot be chosen: coded outputs\n" in said


def test_a_decision_tells_what_it_does_until_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def tells(name: str, task: Task, options: Mapping[str, Any]) -> Plan:
        task.tell("trying other links", 0.5)
        return planned(name, task, options)

    monkeypatch.setattr(steps, "planned", tells)
    monkeypatch.setattr(steps, "compare", partial(compare, names=["all-edge"]))
    asked = steps.trusted_request(read_inputs(world.write("training.yaml", TRAINING)), trust_code=False)
    told: list[tuple[str, float]] = []
    steps.decide(asked, profile(2, phone=1.0, server=1.0), lambda what, done: told.append((what, done)))
    assert told == [
        ("comparing strategies: 0 of 1", 0.0),
        ("comparing strategies: 1 of 1", pytest.approx(0.2)),
        ("trying other links", pytest.approx(0.6)),
    ]


def test_check_knows_the_file(world: World) -> None:
    done = world.palmette("check", world.write("training.yaml", TRAINING))
    assert done.out.endswith("training.yaml: a training of lenet5 for time\n")


def up(folder: Path, *options: str, **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [PALMETTE, "up", "training.yaml", *options],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


@pytest.mark.slow
def test_the_whole_way_and_again(world: World) -> None:
    file = world.write("training.yaml", TRAINING)
    first = world.palmette("up", file, "-y")
    assert first.code == 0, first.err
    results = world.folder / "results"
    assert "profile.json: measured\n" in first.err
    assert "→ all-edge" in first.out
    for name in (
        "profile.json",
        "comparison.json",
        "plan.json",
        "run/run.json",
        "run/model.safetensors",
        "report.html",
    ):
        assert (results / name).exists(), name
    assert json.loads((results / "run" / "run.json").read_text())["iterations"] == 4

    again = world.palmette("up", file, "-y")
    assert again.code == 0, again.err
    assert "this run has ended" in again.out

    file.write_text(TRAINING.replace("iterations: 4", "iterations: 5"))
    (line,) = world.refused("up", file, "-y")
    assert "expected another output" in line


@pytest.mark.slow
def test_whoever_says_no_finds_the_plan_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.write("training.yaml", TRAINING)
    for kept in (False, True):
        monkeypatch.setattr("sys.stdin", Terminal("n\n"))
        done = world.palmette("up", file)
        assert done.code == 0
        assert "Train with this plan? [Y/n]" in done.err
        assert "not trained" in done.out
        assert ("profile.json: kept" in done.err, "plan.json: kept" in done.err) == (kept, kept)
    assert not (world.folder / "results" / "run").exists()


@pytest.mark.slow
def test_another_training_of_the_same_network_need_not_measure(world: World) -> None:
    file = world.write("training.yaml", TRAINING.replace("iterations: 4", "iterations: 1"))
    assert world.palmette("up", file, "-y", "--quiet").code == 0
    file.write_text(file.read_text().replace("results", "other"))
    done = world.palmette("up", file, "-y")
    assert done.code == 0, done.err
    assert "other/profile.json: measured before" in done.err


@pytest.mark.slow
def test_after_ctrl_c_it_goes_on(world: World) -> None:
    world.write("training.yaml", TRAINING.replace("iterations: 4", "iterations: 60"))
    begun = up(world.folder, "-y", start_new_session=True)
    run = world.folder / "results" / "run"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and not _trained(run):
        time.sleep(0.1)
    os.kill(begun.pid, signal.SIGINT)
    _, err = begun.communicate(timeout=60)
    assert begun.returncode == 1
    assert "continue with: palmette up training.yaml" in err
    stopped = json.loads((run / "run.json").read_text())["iterations"]
    assert 0 < stopped < 60
    done = up(world.folder, "-y")
    _, err = done.communicate(timeout=100)
    assert done.returncode == 0, err
    assert "continuing the run that was started" in err
    assert json.loads((run / "run.json").read_text())["iterations"] == 60


def _trained(run: Path) -> bool:
    file = run / "metrics.jsonl"
    return file.exists() and file.read_text().count("\n") > 3
