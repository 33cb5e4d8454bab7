"""Real runs with optimizers, schedules, clipping and accumulation: equal to one process, resumed, stopped early."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import palmette as pt
from palmette.cli import execute
from palmette.control.run.request import Request, from_record, to_record, training_options
from palmette.control.run.session import prepare, resume
from palmette.runtime.options import Options
from palmette.runtime.training.job import ProgressUpdate
from palmette.runtime.training.loop import Training
from palmette.spec.plan import Phase
from palmette.zoo.models import load_network
from tests.control.run.test_processes import trees
from tests.cost.small import instance, phase, source
from tests.durations import lasting
from tests.runtime.rig import off
from tests.runtime.test_optimizers import stepped
from tests.runtime.world import TINY, Runs, alone, lines, losses, weights

FLAGS = ["--optimizer", "AdamW", "--lr", "0.003", "--weight-decay", "0.1", "--schedule", "cosine", "--warmup", "3"]
FLAGS += ["--clip-norm", "0.5", "--accumulate", "2", "--groups", "*.bias: weight_decay=0, lr=0.01"]
FLAGS += ["--optimizer-options", "betas=(0.8, 0.95)", "--dtype", "float64", "--seed", "2", "--quiet"]
OPTIONS = Options(
    optimizer="adamw",
    lr=0.003,
    weight_decay=0.1,
    schedule="cosine",
    warmup=3,
    clip_norm=0.5,
    accumulate=2,
    groups={"*.bias": {"weight_decay": 0, "lr": 0.01}},
    optimizer_options={"betas": (0.8, 0.95)},
    dtype="float64",
    seed=2,
)


def test_all_flags_together_equal_one_process(runs: Runs) -> None:
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, trees(5)["hierarchy"]), *FLAGS, "--iterations", "9", "-o", str(out)]
    assert execute(arguments) == 0
    expected_losses, expected = alone(TINY, 12, 9, OPTIONS)
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) <= 1e-9
    record = json.loads((out / "run.json").read_text())["options"]
    assert {name: record[name] for name in ("optimizer", "clip_norm", "accumulate", "schedule", "warmup")} == {
        "optimizer": "adamw",
        "clip_norm": 0.5,
        "accumulate": 2,
        "schedule": "cosine",
        "warmup": 3,
    }
    sent = [line for line in lines(out / "trace.jsonl") if line["op"] == "send" and line["bytes"] == 8]
    assert len(sent) == 5 * 2 * 2  # from two nodes to the root's and back, after every second iteration and the last
    assert execute(["run", "--resume", str(out), *FLAGS]) == 0
    assert execute(["run", "--resume", str(out), "--groups", "*.bias: lr=1", "--quiet"]) == 2


def stopped_after(runs: Runs, options: Options, tree: Phase, many: int, whole: int) -> Path:
    """The folder of a run that was stopped and then resumed."""
    folder = runs.folder / "resumed"
    profile, cluster = pt.load_profile(runs.profile(TINY)), pt.load_cluster(runs.cluster)
    plan = pt.load_plan(runs.plan(TINY, tree))
    request = Request(testbed="none", iterations=whole, options=options)
    session = prepare(plan, profile, cluster, request, folder)
    trainings: list[Training] = []

    def watch(update: ProgressUpdate) -> None:
        if update.iteration >= many:
            trainings[0].stop()

    assert session.run(watch, trainings.append).ended == "stopped"
    done = resume(folder)
    assert done.run(lambda _: None, lambda _: None).ended == "done"
    return folder


@pytest.mark.parametrize(
    "options",
    [
        OPTIONS,
        Options(
            optimizer=partial(torch.optim.NAdam, betas=(0.8, 0.9)),
            schedule=stepped,
            accumulate=3,
            clip_norm=0.1,
            dtype="float64",
        ),
    ],
    ids=["named", "own"],
)
def test_a_run_resumed_while_gradients_accumulate_equals_one_process(runs: Runs, options: Options) -> None:
    folder = stopped_after(runs, options, trees(5)["three replicas"], 4, 10)
    expected_losses, expected = alone(TINY, 12, 10, options)
    assert losses(folder) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(folder), expected) <= 1e-9


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("adamw", ["cut in two", "hierarchy"]),
        ("adamw", ["three replicas", "cut in two"]),
        pytest.param("adafactor", ["cut in two", "hierarchy"], marks=pytest.mark.slow),
    ],
)
def test_a_change_of_plan_goes_on_with_schedule_and_state(runs: Runs, name: str, order: list[str]) -> None:
    phases = [trees(5)[each] for each in order]
    out = runs.folder / "out"
    flags = ["--optimizer", name, "--lr", "0.01", "--schedule", "linear", "--accumulate", "2", "--dtype", "float64"]
    assert execute([*runs.arguments(TINY, *phases), *flags, "--iterations", "3", "--quiet", "-o", str(out)]) == 0
    options = Options(optimizer=name, lr=0.01, schedule="linear", accumulate=2, dtype="float64")
    expected_losses, expected = alone(TINY, 12, 6, options)
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) <= 1e-9


def test_a_smaller_model_keeps_the_state_of_its_optimizer(runs: Runs) -> None:
    phases = [trees(5)["cut in two"], trees(5)["cut in two"].model_copy(update={"pruning": 0.5})]
    out = runs.folder / "out"
    flags = ["--optimizer", "adamw", "--lr", "0.01", "--accumulate", "3", "--clip-norm", "1", "--dtype", "float64"]
    flags += ["--schedule", "cosine", "--groups", "*.bias: weight_decay=0"]
    assert execute([*runs.arguments(TINY, *phases), *flags, "--iterations", "6", "--quiet", "-o", str(out)]) == 0
    groups = {"*.bias": {"weight_decay": 0}}
    options = Options(
        optimizer="adamw", lr=0.01, clip_norm=1.0, accumulate=3, dtype="float64", schedule="cosine", groups=groups
    )
    expected_losses, expected = alone(TINY, 12, 12, options, {6: 0.5})
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) <= 1e-9


@pytest.mark.slow
def test_sums_of_rows_and_columns_begin_anew_in_a_smaller_model(runs: Runs) -> None:
    phases = [trees(5)["cut in two"], trees(5)["cut in two"].model_copy(update={"pruning": 0.5})]
    out = runs.folder / "out"
    flags = ["--optimizer", "adafactor", "--accumulate", "2", "--iterations", "3", "--quiet", "-o", str(out)]
    assert execute([*runs.arguments(TINY, *phases), *flags]) == 0
    assert len(losses(out)) == 6


def test_a_run_stops_early_and_keeps_its_best_weights(runs: Runs) -> None:
    """A learning rate that grows the loss: the first evaluation stays the best, two more are not better."""
    tree = phase(source("phone", 500, "I"), instance("I", 1, 5, "phone"))
    out = runs.folder / "out"
    flags = ["--lr", "30", "--clip-norm", "100", "--early-stop", "loss:2", "--epochs", "30", "--quiet"]
    assert execute([*runs.arguments(TINY, tree), *flags, "-o", str(out)]) == 0
    found = [line["loss"] for line in lines(out / "metrics.jsonl") if "accuracy" in line]
    best = found.index(min(found))
    record = json.loads((out / "run.json").read_text())
    assert len(found) == best + 3 < 30
    assert (record["ended"], record["stopped_early"]) == ("done", True)
    kept, last = load_file(out / "best.safetensors"), load_file(out / "model.safetensors")
    assert kept.keys() == last.keys()
    assert any(not torch.equal(kept[name], last[name]) for name in kept)


def test_a_run_stops_at_a_loss_that_was_asked_for(runs: Runs) -> None:
    tree = phase(source("phone", 500, "I"), instance("I", 1, 5, "phone"))
    whole, out = runs.folder / "whole", runs.folder / "out"
    arguments = [*runs.arguments(TINY, tree), "--lr", "0.1", "--epochs", "6", "--quiet", "-o"]
    assert execute([*arguments, str(whole)]) == 0
    every = [line["loss"] for line in lines(whole / "metrics.jsonl") if "accuracy" in line]
    wanted = every[2] * (1 + 1e-9)
    assert min(every[:2]) > wanted
    assert execute([*arguments, str(out), "--stop-at", f"loss:{wanted!r}"]) == 0
    assert [line["loss"] for line in lines(out / "metrics.jsonl") if "accuracy" in line] == every[:3]
    record = json.loads((out / "run.json").read_text())
    assert (record["ended"], record["stopped_early"]) == ("done", True)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--optimizer", "lbfgs"], "--optimizer: lbfgs: it computes the loss several times in a step"),
        (["--optimizer", "adam", "--momentum", "0.9"], "--momentum: 0.9: adam has no such option"),
        (["--optimizer-options", "betas"], "--optimizer-options: betas: expected name=value"),
        (["--groups", "weight_decay=0"], "--groups: weight_decay=0: expected a pattern and options"),
        (["--groups", "*.bais: lr=1"], "--groups: *.bais: no such weight"),
        (["--early-stop", "loss"], "--early-stop: loss: expected loss:3"),
        (["--stop-at", "loss:low"], "--stop-at: loss:low: expected loss:0.3"),
        (["--schedule", "tests.runtime.test_optimizer_choice:plateau"], "--schedule: plateau: needs a metric"),
        (["--optimizer", "muon"], "--optimizer: muon: Muon only supports 2D"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    runs: Runs, capsys: pytest.CaptureFixture[str], flags: list[str], line: str
) -> None:
    assert execute([*runs.arguments(TINY, trees(5)["alone"]), *flags, "-o", str(runs.folder / "out")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert line in said.err
    assert not (runs.folder / "out").exists()


@pytest.mark.parametrize(
    ("sync", "length", "line"),
    [
        ("step", "--iterations", "there are 3 iterations in the run; expected at most as many"),
        ("epoch", "--iterations", "there are 3 iterations in the run; expected at most as many"),
        ("epoch", "--epochs", "there are 4 steps of a tree between exchanges; expected at most as many"),
    ],
)
def test_gradients_are_not_accumulated_for_ever(
    runs: Runs, capsys: pytest.CaptureFixture[str], sync: str, length: str, line: str
) -> None:
    tree = phase(
        *(source(at, 25, at) for at in ("phone", "cloud")),
        *(instance(at, 1, 5, at) for at in ("phone", "cloud")),
        sync=sync,
    )
    arguments = [*runs.arguments(TINY, tree), length, "3", "--accumulate", "5", "-o", str(runs.folder / "out")]
    assert execute(arguments) == 2
    assert capsys.readouterr().err == f"palmette: --accumulate: 5: {line}\n"
    assert not (runs.folder / "out").exists()


def test_what_the_optimizer_keeps_counts_in_memory(runs: Runs) -> None:
    plan = pt.load_plan(runs.plan(TINY, trees(5)["alone"]))
    profile, cluster = pt.load_profile(runs.profile(TINY)), pt.load_cluster(runs.cluster)

    def peak(**options: Any) -> float:
        request = Request(testbed="none", options=training_options(**options))
        session = prepare(plan, profile, cluster, request, runs.folder / "out")
        return session.evaluator.peak_bytes(plan.phases[0])["phone"]

    copy = sum(layer.parameter_bytes for layer in profile.layers)
    assert peak(optimizer="AdamW") - peak() == 2 * copy
    assert peak(momentum=0.5, accumulate=2) - peak() == 2 * copy
    assert peak(optimizer=torch.optim.Adamax) - peak() == 2 * copy


@pytest.mark.parametrize("given", [torch.optim.AdamW, stepped, partial(torch.optim.SGD, momentum=0.5), "adamw"])
def test_what_a_user_gives_is_recorded_by_name(given: Any) -> None:
    field = "schedule" if given is stepped else "optimizer"
    request = Request(options=training_options(**{field: given}))
    found = from_record(json.loads(json.dumps(to_record(request))), "run.json")
    read = getattr(found.options, field)
    assert read == given or (read.func, read.keywords) == (given.func, given.keywords)


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize(
    ("model", "accumulate", "sent"), [(TINY, 4, 100992), ("tests.runtime.recipes:padded_tokens", 1, None)]
)
def test_the_estimate_meets_what_nodes_exchange(runs: Runs, model: str, accumulate: int, sent: int | None) -> None:
    """Gradients once an update; and what the samples of three roots count."""
    tree, out = trees(len(load_network(model).layers))["three replicas"], runs.folder / "out"
    profile, cluster = runs.profile(model, second=2e-3), runs.cluster
    files = ["run", str(runs.plan(model, tree)), "--profile", str(profile), "--cluster", str(cluster)]
    flags = ["--testbed", "paced", "--iterations", "24", "--accumulate", str(accumulate), "--quiet"]
    assert execute([*files, *flags, "-o", str(out)]) == 0
    found = json.loads((out / "run.json").read_text())
    assert found["iteration_s"] == lasting(found["estimate_s"], sooner=0.15)
    total = sum(line["bytes"] for line in lines(out / "trace.jsonl") if line["op"] == "send")
    assert sent is None or total == sent  # a quarter of what 24 exchanges send
