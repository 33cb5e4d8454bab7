"""What a run leaves behind, and what people expect of a trainer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import palmette as pt
from palmette.cli import execute
from palmette.runtime.options import Options
from palmette.spec.files import validated
from palmette.spec.plan import Plan
from palmette.spec.trace import Operation
from palmette.zoo.models import load_network
from tests.cost.small import instance, phase, source
from tests.runtime.networks import tiny
from tests.runtime.rig import off
from tests.runtime.world import TINY, Runs, alone, lines, losses, weights

CUT = phase(source("phone", 50, "front"), instance("front", 1, 2, "phone", "back"), instance("back", 3, 5, "cloud"))
ALONE = phase(source("phone", 50, "all"), instance("all", 1, 5, "phone"))
INT8 = phase(
    source("phone", 50, "front"),
    instance("front", 1, 2, "phone", "back", codec="int8"),
    instance("back", 3, 5, "cloud"),
)
FAST = ["--optimizer", "momentum", "--lr", "0.05"]
EPOCH = 27  # the phone owns 1500 of 1700 samples: of 1500 digits 1323, in batches of 50


def test_a_run_leaves_what_others_rely_on(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, CUT), "--epochs", "2", *FAST, "--seed", "5", "-o", str(out)]
    assert execute(arguments) == 0
    said = capsys.readouterr()
    assert "accuracy on held-out data" in said.out
    assert said.err == ""  # no progress bar where nobody watches

    metrics = lines(out / "metrics.jsonl")
    iterations = [line for line in metrics if "accuracy" not in line]
    assert [line["iteration"] for line in iterations] == list(range(2 * EPOCH))
    assert [line["epoch"] for line in iterations] == [0] * EPOCH + [1] * EPOCH
    assert all(line["samples"] == 50 for line in iterations)
    assert [line["wall_s"] for line in iterations] == sorted(line["wall_s"] for line in iterations)
    judged = [line for line in metrics if "accuracy" in line]
    assert [line["epoch"] for line in judged] == [0, 1]
    assert judged[-1]["accuracy"] > 0.4
    assert judged[-1]["loss"] < losses(out)[0]

    trace = lines(out / "trace.jsonl")
    operations = [validated(Operation, line) for line in trace]
    assert {o.op for o in operations} == {"forward", "send", "receive", "backward", "update"}
    assert {o.iteration for o in operations} == set(range(2 * EPOCH))
    assert all(o.start_s <= o.end_s for o in operations)
    assert len(operations) == 2 * EPOCH * 10
    made = validated(Plan, json.loads((out / "run.json").read_text())["plan"])
    on_time_estimate = pt.estimate(made, timeline=True).timeline or ()
    assert Counter((o.node, o.instance, o.op) for o in operations if o.iteration == 7) == Counter(
        (o.node, o.instance, o.op) for o in on_time_estimate
    )
    sent = [o for o in operations if o.op == "send" and o.iteration == 7]
    assert sorted(o.bytes for o in sent) == [50 * 48 * 4, 50 * 48 * 4 + 50 * 8]  # the gradient; the output with labels

    written = json.loads((out / "run.json").read_text())
    assert written["format"] == "palmette.run/1"
    assert written["ended"] == "done"
    assert written["seed"] == 5
    assert written["iterations"] == 2 * EPOCH
    assert written["plan"]["model"] == TINY
    assert 0 < written["iteration_s"] < 10
    assert written["estimate_s"] > 0
    assert written["energy_j"] > 0
    assert written["energy_source"].startswith("modelled")
    assert written["accuracy"] == judged[-1]["accuracy"]
    assert set(written["versions"]) >= {"palmette", "torch", "python"}
    assert written["options"].items() >= {"epochs": 2, "optimizer": "momentum", "lr": 0.05, "seed": 5}.items()
    for seconds in written["nodes"].values():
        assert set(seconds) == {"computing_s", "sending_s", "waiting_s", "whole_s"}
        assert seconds["whole_s"] == pytest.approx(written["time_s"])

    named = tiny().state_dict()
    found = weights(out)
    assert {name: value.shape for name, value in found.items()} == {name: value.shape for name, value in named.items()}
    best = load_file(out / "checkpoints" / "best" / "model.safetensors")
    better = max((0, 1), key=lambda k: (judged[k]["accuracy"], -k))
    assert (off(best, found) == 0) == (better == 1)


def test_the_same_seed_gives_the_same_weights_whatever_the_plan(runs: Runs) -> None:
    first, second, third = (runs.folder / name for name in "abc")
    common = ["--iterations", "4", "--dtype", "float64", "--quiet"]
    assert execute([*runs.arguments(TINY, ALONE), *common, "--seed", "2", "-o", str(first)]) == 0
    assert execute([*runs.arguments(TINY, CUT), *common, "--seed", "2", "-o", str(second)]) == 0
    assert execute([*runs.arguments(TINY, ALONE), *common, "--seed", "3", "-o", str(third)]) == 0
    assert losses(first) == pytest.approx(losses(second), rel=1e-9)
    assert off(weights(first), weights(second)) < 1e-10
    assert losses(first)[0] != pytest.approx(losses(third)[0], rel=1e-3)
    again = runs.folder / "again"
    assert execute([*runs.arguments(TINY, CUT), *common, "--seed", "2", "-o", str(again)]) == 0
    assert (again / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()


def test_training_starts_from_given_weights_and_leaves_frozen_ones(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {name: torch.randn_like(value) * 0.1 for name, value in tiny().state_dict().items()}
    save_file(given, runs.folder / "given.safetensors")
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, CUT), "--init", str(runs.folder / "given.safetensors"), "--iterations", "3"]
    assert execute([*arguments, "--freeze", "conv1", "--freeze", "fc1.*bias", "--quiet", "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    found = weights(out)
    for name, value in given.items():
        frozen = name.startswith("conv1") or name == "fc1.1.bias"
        assert torch.equal(found[name], value) == frozen, name


def test_training_starts_from_a_plain_state_dict(runs: Runs) -> None:
    given = {name: torch.randn_like(value) * 0.1 for name, value in tiny().state_dict().items()}
    torch.save(given, runs.folder / "given.pt")
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, CUT), "--init", str(runs.folder / "given.pt"), "--iterations", "1"]
    assert execute([*arguments, "--freeze", "*", "--freeze", "fc1", "--quiet", "-o", str(out)]) == 2  # nothing to train
    assert execute([*arguments, "--lr", "1e-30", "--quiet", "-o", str(out)]) == 0
    assert off(weights(out), given) < 1e-7
    tiny().load_state_dict(weights(out))


class Unsafe:
    """Somebody else's object: reading it would execute code."""

    def __reduce__(self) -> tuple[object, ...]:
        return print, ("executed",)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (
            {"model": {"w": torch.zeros(2)}, "epoch": 3},
            "it is no state_dict; expected torch.save(module.state_dict(), ",
        ),
        ({"w": Unsafe()}, "it holds more than tensors; expected torch.save(module.state_dict(), FILE)"),
    ],
)
def test_what_is_no_state_dict_is_told_and_not_executed(
    runs: Runs, capsys: pytest.CaptureFixture[str], content: object, line: str
) -> None:
    torch.save(content, runs.folder / "given.pt")
    arguments = [*runs.arguments(TINY, CUT), "--init", str(runs.folder / "given.pt"), "-o", str(runs.folder / "out")]
    assert execute(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("palmette: --init: ")
    assert f": cannot be read: {line}" in err


def test_json_is_the_record_of_the_run_also_when_nothing_is_left_to_do(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, CUT), "--iterations", "2", "--json", "-o", str(out)]) == 0
    assert execute(["run", "--resume", str(out), "--json"]) == 0
    printed, _ = capsys.readouterr()
    assert printed == 2 * (out / "run.json").read_text()


def test_phases_follow_one_another_as_if_they_were_one(runs: Runs) -> None:
    out = runs.folder / "out"
    options = Options(optimizer="adam", lr=0.001, dtype="float64")
    arguments = [*runs.arguments(TINY, CUT, ALONE), "--iterations", "4", "--optimizer", "adam", "--dtype", "float64"]
    assert execute([*arguments, "--quiet", "-o", str(out)]) == 0
    expected_losses, expected = alone(TINY, 50, 8, options)
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert [line["iteration"] for line in lines(out / "metrics.jsonl") if "accuracy" not in line] == list(range(8))
    assert off(weights(out), expected) < 1e-10


def test_with_int8_messages_are_a_quarter_and_the_loss_falls(runs: Runs) -> None:
    out = runs.folder / "out"
    arguments = [*runs.arguments(TINY, INT8), "--epochs", "2", *FAST, "--quiet", "-o", str(out)]
    assert execute(arguments) == 0
    sent = {line["bytes"] for line in lines(out / "trace.jsonl") if line["op"] == "send"}
    numbers, scales = 50 * 48, 3 * 4
    assert sent == {numbers + scales, numbers + scales + 50 * 8}
    found = losses(out)
    assert sum(found[-10:]) < 0.8 * sum(found[:10])


def test_the_emulated_cluster_trains_the_same(runs: Runs) -> None:
    bare, paced = runs.folder / "bare", runs.folder / "paced"
    arguments = [*runs.arguments(TINY, CUT), "--iterations", "3", "--dtype", "float64", "--quiet"]
    assert execute([*arguments, "-o", str(bare)]) == 0
    emulated = ["paced" if each == "none" else each for each in arguments]
    assert execute([*emulated, "-o", str(paced)]) == 0
    assert off(weights(bare), weights(paced)) == 0


def wrong(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What a run says that is refused before it starts."""
    capsys.readouterr()
    assert execute([*arguments, "--quiet"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def test_what_cannot_be_run_is_refused_with_a_line_a_fault(
    runs: Runs, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    usual = runs.arguments(TINY, CUT)
    out = ["-o", str(tmp_path / "out")]
    file = tmp_path / "file"
    file.write_text("")
    nonsense = tmp_path / "nonsense.safetensors"
    nonsense.write_text("nonsense")
    save_file({"conv1.0.weight": torch.zeros(2)}, tmp_path / "other.safetensors")

    def said(*more: str) -> list[str]:
        return wrong(capsys, *usual, *out, *more)

    assert said("--freeze", "conv3") == ["palmette: --freeze: conv3: no such layer with weights; did you mean conv2?"]
    assert "--testbed: padced" in said("--testbed", "padced")[0]
    assert "did you mean paced" in said("--testbed", "padced")[0]
    assert "--optimizer: sdg" in said("--optimizer", "sdg")[0]
    assert said("--lr", "0") == ["palmette: --lr: 0.0: expected a number above 0"]
    assert said("--lr", "nan") == ["palmette: --lr: nan: expected a number above 0"]
    assert "--dtype: float16" in said("--dtype", "float16")[0]
    assert "--iterations" in said("--iterations", "0")[0]
    assert "not both" in said("--iterations", "3", "--epochs", "1")[0]
    assert "data: digts" in said("--data", "digts")[0]
    assert "--init" in said("--init", str(tmp_path / "missing"))[0]
    assert "--init" in said("--init", str(nonsense))[0]
    assert len(said("--init", str(tmp_path / "other.safetensors"))) > 1
    assert "the network takes 1×8×8" in said("--data", "tests.runtime.networks:flat_images")[0]
    assert "File exists" in wrong(capsys, *usual, "-o", str(file))[0]
    assert all(line.startswith("palmette: ") for line in said("--testbed", "x", "--dtype", "y"))


def test_a_profile_of_another_network_is_refused(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    other = ["--profile", str(runs.profile("lenet5")), "--cluster", str(runs.cluster), "-o", str(runs.folder / "out")]
    plan = str(runs.plan(TINY, CUT))
    assert "expected the last instance to end with the last" in wrong(capsys, "run", plan, *other)[0]
    deeper = phase(source("phone", 50, "all"), instance("all", 1, 7, "phone"))
    said = wrong(capsys, "run", str(runs.plan(TINY, deeper)), *other)
    assert said == [f"palmette: model: {TINY}: it has 5 layers, the profile 7; expected a profile of this network"]
    weightless = json.loads(runs.profile(TINY).read_text())
    weightless["layers"][2]["parameter_bytes"] = 0
    runs.profile(TINY).write_text(json.dumps(weightless))
    changed = runs.folder / "weightless.json"
    changed.write_text(json.dumps(weightless))
    arguments = ["run", str(runs.plan(TINY, CUT)), "--profile", str(changed), "--cluster", str(runs.cluster)]
    said = wrong(capsys, *arguments, "-o", str(runs.folder / "out"))
    assert said == [f"palmette: profile.layers[2].parameter_bytes: 0.0: {TINY}'s layer conv2 has weights"]


def test_data_with_more_classes_than_the_network_is_refused(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    model = "tests.runtime.networks:three_classes"
    tree = phase(source("phone", 4, "all"), instance("all", 1, len(load_network(model).layers), "phone"))
    said = wrong(capsys, *runs.arguments(model, tree), "-o", str(runs.folder / "out"))
    assert said == [f"palmette: --data: digits: it has 10 classes, but {model} has 3; expected data with no more"]
