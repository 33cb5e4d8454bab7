"""What is frozen stays frozen: weights without ``requires_grad`` in the user's module, whatever trains the others."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import palmette as pt
from palmette.cli import execute
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.runtime.options import Options
from palmette.runtime.training.job import ProgressUpdate
from palmette.runtime.training.loop import Training
from palmette.spec.plan import Phase
from palmette.zoo.capture import parameters
from palmette.zoo.models import load_network
from tests.cost.small import instance, phase, source
from tests.peers import NEEDS_PEFT
from tests.runtime.rig import off, relatively_off
from tests.runtime.world import Runs, alone, losses, weights

VIT, ADAPTERS, HEADED, ALL_FROZEN = (
    f"tests.runtime.networks:{name}" for name in ("vit", "adapters", "headed", "all_frozen")
)
DOUBLE = Options(dtype="float64", lr=0.05)
COMMON = ["--dtype", "float64", "--lr", "0.05", "--quiet"]


def depth(model: str) -> int:
    return len(load_network(model).layers)


def replicas(deep: int, **more: object) -> Phase:
    """Three branches, two of them on one node, which hold the same layers and meet in the cloud."""
    return phase(
        source("phone", 12, "P"),
        source("server", 9, "S"),
        source("phone", 5, "Q"),
        instance("P", 1, 3, "phone", "R"),
        instance("S", 1, 3, "server", "R"),
        instance("Q", 1, 3, "server", "R"),
        instance("R", 4, deep, "cloud"),
        **more,
    )


def devices(deep: int, **more: object) -> Phase:
    """A whole network each on two nodes."""
    return phase(
        source("phone", 40, "P"),
        source("server", 8, "S"),
        instance("P", 1, deep, "phone"),
        instance("S", 1, deep, "server"),
        **more,
    )


def chain(deep: int, cut: int, **more: object) -> Phase:
    """Frozen layers on the phone, the others in the cloud."""
    return phase(
        source("phone", 26, "front"),
        instance("front", 1, cut, "phone", "back"),
        instance("back", cut + 1, deep, "cloud"),
        **more,
    )


def before(model: str) -> dict[str, Tensor]:
    made = load_network(model, seed=0).module
    assert made is not None
    return {name: value.double() for name, value in made.state_dict().items()}


def assert_only_the_trainable_changed(model: str, found: dict[str, Tensor], *, also_frozen: str = "nothing") -> None:
    """Frozen weights are the same to the bit, all others have changed."""
    made, started = load_network(model, seed=0).module, before(model)
    assert made is not None
    for name, weight in made.named_parameters():
        stays = not weight.requires_grad or name.startswith(also_frozen)
        assert torch.equal(found[name].double(), started[name]) == stays, name


@pytest.mark.slow
@pytest.mark.parametrize("model", [VIT, ADAPTERS])
def test_replicas_that_agree_at_every_step_leave_what_one_process_does(runs: Runs, model: str) -> None:
    out = runs.folder / "out"
    assert execute([*runs.arguments(model, replicas(depth(model))), "--iterations", "4", *COMMON, "-o", str(out)]) == 0
    expected_losses, expected = alone(model, 26, 4, DOUBLE)
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) < 1e-10
    assert_only_the_trainable_changed(model, weights(out))


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_frozen_layers_at_the_beginning_of_a_chain(runs: Runs, optimizer: str) -> None:
    out = runs.folder / "out"
    arguments = [*runs.arguments(VIT, chain(9, 6)), "--iterations", "3", "--optimizer", optimizer, *COMMON]
    assert execute([*arguments, "-o", str(out)]) == 0
    made = Options(dtype="float64", lr=0.05, optimizer=optimizer)  # type: ignore[arg-type]
    _, expected = alone(VIT, 26, 3, made)
    assert off(weights(out), expected) < 1e-10
    assert_only_the_trainable_changed(VIT, weights(out))


@pytest.mark.parametrize("model", [VIT, ADAPTERS])
@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_every_way_to_agree_leaves_frozen_weights_as_they_are(runs: Runs, model: str, sync: str) -> None:
    out = runs.folder / "out"
    tree = devices(depth(model), sync=sync, server="cloud")
    assert execute([*runs.arguments(model, tree), "--iterations", "6", *COMMON, "-o", str(out)]) == 0
    assert_only_the_trainable_changed(model, weights(out))


@pytest.mark.slow
def test_freeze_adds_to_what_the_module_says(runs: Runs) -> None:
    out = runs.folder / "out"
    arguments = [
        *runs.arguments(ADAPTERS, replicas(depth(ADAPTERS))),
        "--freeze",
        "blocks.1.*",
        "--iterations",
        "2",
        *COMMON,
    ]
    assert execute([*arguments, "-o", str(out)]) == 0
    assert_only_the_trainable_changed(ADAPTERS, weights(out), also_frozen="blocks.1.")


def test_freeze_changes_the_estimate_as_the_module_itself_does(runs: Runs) -> None:
    nodes = runs.cluster.read_text().replace("tier:", "hardware: raspberry-pi-3, tier:")
    runs.cluster.write_text(nodes)
    cluster, patterns, out = pt.load_cluster(runs.cluster), ["blocks.*"], runs.folder / "out"
    tree = replicas(depth(ADAPTERS), ahead=False)
    trained, frozen = (pt.profile(ADAPTERS, cluster=cluster, freeze=each) for each in ((), patterns))
    plan = pt.load_plan(runs.plan(ADAPTERS, tree))
    expected = pt.estimate(plan, profile=frozen, cluster=cluster, input_as="tensor")
    assert expected.iteration_s < pt.estimate(plan, profile=trained, cluster=cluster, input_as="tensor").iteration_s
    session = prepare(plan, trained, cluster, Request(testbed="none", iterations=1, options=freezing(patterns)), out)
    assert session.evaluator.profile.nodes["phone"].backward_s == frozen.nodes["phone"].backward_s
    assert session.evaluator.price(tree).iteration_s == pytest.approx(expected.iteration_s, rel=0.05)


def freezing(patterns: list[str]) -> Options:
    return Options(freeze=tuple(patterns))


@pytest.mark.parametrize("way", ["prune", "distill"])
def test_frozen_weights_outlive_phases_and_smaller_models(runs: Runs, way: str) -> None:
    out = runs.folder / "out"
    first, second, third = (
        chain(4, 2),
        phase(source("phone", 26, "all"), instance("all", 1, 4, "server"), pruning=0.4, compress=way),
        devices(4, sync="epoch", server="cloud", pruning=0.4),
    )
    arguments = [*runs.arguments(HEADED, first, second, third), "--freeze", "fc1.1.bias", "--iterations", "3"]
    assert execute([*arguments, *COMMON, "-o", str(out)]) == 0
    started, found = before(HEADED), weights(out)
    for name in ("conv1.0.weight", "conv1.0.bias", "conv1.1.weight", "conv2.0.bias", "fc1.1.bias"):
        kept = {value.item() for value in started[name].flatten()}
        assert {value.item() for value in found[name].flatten()} <= kept, name
    learnt = {value.item() for value in started["fc2.weight"].flatten()}
    assert not {value.item() for value in found["fc2.weight"].flatten()} & learnt


@pytest.mark.slow
def test_a_pruned_network_with_frozen_weights_trains_as_in_one_process(runs: Runs) -> None:
    out = runs.folder / "out"
    phases = [chain(4, 2), chain(4, 1, pruning=0.4)]
    assert execute([*runs.arguments(HEADED, *phases), "--iterations", "3", *COMMON, "-o", str(out)]) == 0
    expected_losses, expected = alone(HEADED, 26, 6, DOUBLE, pruned={3: 0.4})
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) < 1e-10


@pytest.mark.slow
def test_a_run_that_goes_on_later_keeps_them_frozen_and_out_of_its_checkpoints(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, stopped = runs.folder / "whole", runs.folder / "stopped"
    arguments = [
        *runs.arguments(ADAPTERS, replicas(depth(ADAPTERS))),
        *COMMON,
        "--optimizer",
        "adam",
        "--iterations",
        "4",
    ]
    assert execute([*arguments, "-o", str(whole)]) == 0
    begun = prepare(
        pt.load_plan(arguments[1]),
        pt.load_profile(runs.profile(ADAPTERS)),
        pt.load_cluster(runs.cluster),
        Request(testbed="none", iterations=4, options=replace(DOUBLE, optimizer="adam")),
        stopped,
    )
    training: list[Training] = []

    def stop(update: ProgressUpdate) -> None:
        if update.iteration == 2:
            training[0].stop()

    assert begun.run(stop, training.append).ended == "stopped"
    kept = max((stopped / "checkpoints").glob("[0-9]*"))
    frozen = {n for n, each in parameters(load_network(ADAPTERS).layers).items() if not each.requires_grad}
    assert frozen
    assert load_file(kept / "model.safetensors").keys() == weights(whole).keys() - frozen
    written = {name: (kept / name).read_text() for name in ("progress.json", "SHA256SUMS")}
    other = written["progress.json"].replace('"base": "', '"base": "0')
    (kept / "progress.json").write_text(other)
    before, after = (hashlib.sha256(text.encode()).hexdigest() for text in (written["progress.json"], other))
    (kept / "SHA256SUMS").write_text(written["SHA256SUMS"].replace(before, after))
    capsys.readouterr()
    assert execute(["run", "--resume", str(stopped), "--quiet"]) == 2
    assert "its frozen weights are not those that the run began with" in capsys.readouterr().err
    for name, text in written.items():
        (kept / name).write_text(text)
    assert execute(["run", "--resume", str(stopped), "--quiet"]) == 0
    assert off(weights(stopped), weights(whole)) == 0
    assert_only_the_trainable_changed(ADAPTERS, weights(stopped))


@pytest.mark.slow
def test_given_weights_are_frozen_like_those_of_the_module(runs: Runs) -> None:
    one, two = runs.folder / "one", runs.folder / "two"
    arguments = [*runs.arguments(VIT, chain(9, 6)), "--iterations", "2", *COMMON]
    assert execute([*arguments, "-o", str(one)]) == 0
    assert execute([*arguments, "--init", str(one / "model.safetensors"), "-o", str(two)]) == 0
    assert_only_the_trainable_changed(VIT, weights(two))
    assert not torch.equal(weights(two)["head.weight"], weights(one)["head.weight"])


@pytest.mark.slow
def test_batch_norm_with_frozen_weights_keeps_pytorchs_statistics_and_with_freeze_its_own(runs: Runs) -> None:
    out, still = runs.folder / "out", runs.folder / "still"
    arguments = [*runs.arguments(HEADED, chain(4, 2)), "--iterations", "3", *COMMON]
    assert execute([*arguments, "-o", str(out)]) == 0
    _, expected = alone(HEADED, 26, 3, DOUBLE)
    assert off(weights(out), expected) < 1e-10
    assert_only_the_trainable_changed(HEADED, weights(out))
    moved = weights(out)["conv1.1.running_mean"]
    assert not torch.equal(moved, before(HEADED)["conv1.1.running_mean"])
    assert execute([*arguments, "--freeze", "conv1", "-o", str(still)]) == 0
    assert torch.equal(weights(still)["conv1.1.running_mean"], before(HEADED)["conv1.1.running_mean"])
    assert not torch.equal(weights(still)["conv2.1.running_mean"], before(HEADED)["conv2.1.running_mean"])


@NEEDS_PEFT
@pytest.mark.slow
def test_adapters_of_peft_learn_and_nothing_else_does(runs: Runs) -> None:
    model, out = "tests.runtime.networks:with_peft", runs.folder / "out"
    tree = replicas(len(load_network(model, seed=0).layers))
    assert execute([*runs.arguments(model, tree), "--iterations", "4", "--lr", "0.05", "--quiet", "-o", str(out)]) == 0
    _, expected = alone(model, 26, 4, Options(lr=0.05))
    assert relatively_off(weights(out), expected) < 1e-4
    assert_only_the_trainable_changed(model, weights(out))


def test_a_network_with_nothing_to_train_is_refused(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["-o", str(runs.folder / "out"), "--quiet"]
    expected = "expected one with requires_grad that --freeze leaves"
    assert execute([*runs.arguments(ALL_FROZEN, chain(5, 2)), *out]) == 2
    assert capsys.readouterr().err == f"palmette: model: {ALL_FROZEN}: all of its 8 weights are frozen; {expected}\n"
    assert execute([*runs.arguments(VIT, chain(9, 2)), *out, "--freeze", "head"]) == 2
    assert capsys.readouterr().err == f"palmette: model: {VIT}: all of its 40 weights are frozen; {expected}\n"
    assert not Path(out[1]).exists()
