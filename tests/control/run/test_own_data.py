"""Sources that name data train on it, whatever the sync; one that does not among them is refused."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor, nn

import palmette as pt
from palmette.cli import execute
from palmette.control.run.data import COMMON
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.errors import InputError
from palmette.runtime.data.batches import Batches
from palmette.runtime.options import Options
from palmette.runtime.training.evaluation import evaluate
from palmette.runtime.training.job import ProgressUpdate
from palmette.runtime.training.loop import Training
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.spec.plan import Phase
from palmette.zoo.capture import LayerChain, load_state
from palmette.zoo.data import concatenate, load_data
from palmette.zoo.models import load_network
from palmette.zoo.recipes.objective import classification
from tests.cost.small import instance, phase, source
from tests.runtime.rig import off, optimizer_of
from tests.runtime.world import TINY, Runs, lines, losses, weights

SMALL, LARGE = (f"tests.runtime.networks:{name}" for name in ("small_digits", "large_digits"))
LABELS = "tests.runtime.networks:labels_to_eleven"
COMMON_OPTIONS = ["--dtype", "float64", "--lr", "0.05", "--quiet"]
JOINING = phase(
    source("phone", 12, "P"),
    source("server", 8, "S"),
    source("phone", 6, "Q"),
    instance("P", 1, 2, "phone", "R"),
    instance("S", 1, 2, "server", "R"),
    instance("Q", 1, 2, "phone", "R"),
    instance("R", 3, 5, "cloud"),
)


def devices(sync: str) -> Phase:
    return phase(
        source("phone", 12, "P"),
        source("server", 8, "S"),
        instance("P", 1, 5, "phone"),
        instance("S", 1, 5, "server"),
        sync=sync,
        **({} if sync == "step" else {"server": "cloud"}),
        **({"every": 4} if sync == "every" else {}),
    )


def own(runs: Runs, phone: str | None = SMALL, server: str | None = LARGE) -> None:
    """Give phone and server private data of their own."""
    text = runs.cluster.read_text()
    for known, data, samples in (("samples: 1500}", phone, 700), ("samples: 100}", server, 250)):
        if data is not None:
            text = text.replace(known, f'samples: {samples}, private: true, data: "{data}"}}', 1)
    runs.cluster.write_text(text)


def one_process(iterations: int) -> dict[str, Tensor]:
    """The weights of one process that draws eighteen samples of the phone's data and eight of the server's."""
    options = Options(dtype="float64", lr=0.05)
    network = load_network(TINY, seed=0)
    layers = [replace_dropout(each.module.double(), str(n)) for n, each in enumerate(network.layers, 1)]
    whole = LayerChain(layers).train()
    optimizer = optimizer_of(options, list(whole.parameters()))
    parts = [load_data(name, (1, 8, 8)).train for name in (SMALL, LARGE)]
    draws = [Batches(len(part), many, 0) for part, many in zip(parts, (18, 8), strict=True)]
    for k in range(iterations):
        phone, server = (part.batch(draw.indices(k)) for part, draw in zip(parts, draws, strict=True))
        inputs, labels = (
            torch.cat([mine[:12], other, mine[12:]]) for mine, other in zip(phone, server, strict=True)
        )  # in the plan's order
        with Drawing(Draw(0, k, range(26))):
            loss = nn.functional.cross_entropy(whole(inputs.double()), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {name: value.clone() for each in layers for name, value in each.state_dict().items()}


def test_two_private_owners_train_on_their_own_data_as_one_process_would(runs: Runs) -> None:
    own(runs)
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, JOINING), "--iterations", "5", *COMMON_OPTIONS, "-o", str(out)]) == 0
    assert off(weights(out), one_process(5)) < 1e-10
    assert json.loads((out / "run.json").read_text())["options"]["data"] is None


def test_a_run_on_data_of_its_sources_goes_on_where_it_stopped(runs: Runs) -> None:
    own(runs)
    out = runs.folder / "out"
    begun = prepare(
        pt.load_plan(runs.arguments(TINY, JOINING)[1]),
        pt.load_profile(runs.profile(TINY)),
        pt.load_cluster(runs.cluster),
        Request(testbed="none", iterations=5, options=Options(dtype="float64", lr=0.05)),
        out,
    )
    training: list[Training] = []

    def stop(update: ProgressUpdate) -> None:
        if update.iteration == 2:
            training[0].stop()

    assert begun.run(stop, training.append).ended == "stopped"
    assert execute(["run", "--resume", str(out), "--quiet"]) == 0
    assert off(weights(out), one_process(5)) < 1e-10


def test_data_beside_sources_that_name_their_own_is_what_the_network_is_judged_by(runs: Runs) -> None:
    own(runs)
    own_parts, given = runs.folder / "own", runs.folder / "given"
    arguments = [*runs.arguments(TINY, JOINING), "--epochs", "1", *COMMON_OPTIONS]
    assert execute([*arguments, "-o", str(own_parts)]) == 0
    assert execute([*arguments, "--data", "digits", "-o", str(given)]) == 0
    assert off(weights(own_parts), weights(given)) == 0
    network = load_network(TINY, seed=0)
    load_state(network.layers, weights(given))
    for folder, data in (
        (own_parts, concatenate([load_data(name, (1, 8, 8)) for name in (SMALL, LARGE)])),
        (given, load_data("digits", (1, 8, 8))),
    ):
        found = [line for line in lines(folder / "metrics.jsonl") if "accuracy" in line]
        expected = evaluate(network, data.held_out, classification(network.classes), Options(dtype="float64"))
        assert [line["loss"] for line in found] == pytest.approx([expected.loss])


@pytest.mark.parametrize(
    "tree", [JOINING, devices("step"), devices("epoch"), devices("every")], ids=["cut", "step", "epoch", "every"]
)
def test_every_owner_evaluates_on_its_own_data_as_one_process_would(runs: Runs, tree: Phase) -> None:
    own(runs)
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, tree), "--epochs", "1", *COMMON_OPTIONS, "-o", str(out)]) == 0
    network = load_network(TINY, seed=0)
    for layer in network.layers:
        layer.module.double()
    load_state(network.layers, weights(out))
    (found,) = (line for line in lines(out / "metrics.jsonl") if "accuracy" in line)
    for node, name in (("phone", SMALL), ("server", LARGE)):
        part = load_data(name, (1, 8, 8)).held_out
        expected = evaluate(network, part, classification(network.classes), Options(dtype="float64"))
        told = {"samples": len(part), "accuracy": expected.accuracy, "loss": pytest.approx(expected.loss, rel=1e-12)}
        assert found["owners"][node] == told
    samples = sum(each["samples"] for each in found["owners"].values())
    mean = sum(each["samples"] * each["loss"] for each in found["owners"].values()) / samples
    assert found["loss"] == pytest.approx(mean, rel=1e-12)


@pytest.mark.slow
def test_an_epoch_goes_through_as_many_samples_as_the_sources_own(runs: Runs) -> None:
    own(runs)
    sizes = [len(load_data(name, (1, 8, 8)).train) for name in (SMALL, LARGE)]
    half = phase(
        source("phone", 12, "P", epoch_samples=350),
        source("server", 8, "S"),
        instance("P", 1, 5, "phone"),
        instance("S", 1, 5, "server"),
    )
    for tree, samples in ((JOINING, sum(sizes)), (half, sizes[0] / 2 + sizes[1])):
        out = runs.folder / str(tree.batch)
        assert execute([*runs.arguments(TINY, tree), "--epochs", "1", *COMMON_OPTIONS, "-o", str(out)]) == 0
        assert len(losses(out)) == math.ceil(samples / tree.batch)


@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_other_ways_to_agree_need_no_common_data_either(runs: Runs, sync: str) -> None:
    own(runs)
    out = runs.folder / "out"
    assert execute([*runs.arguments(TINY, devices(sync)), "--epochs", "1", *COMMON_OPTIONS, "-o", str(out)]) == 0
    assert lines(out / "metrics.jsonl")[-1]["accuracy"] > 0


@pytest.mark.parametrize("sync", ["step", "epoch", "async"])
def test_sources_of_which_only_some_name_data_are_refused(
    runs: Runs, sync: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own(runs, server=None)
    arguments = [*runs.arguments(TINY, devices(sync)), "-o", str(runs.folder / "out"), "--quiet"]
    expected = "source.data: server: no data, unlike phone; expected data for every source of the plan, or for none"
    for more in ([], ["--data", "digits"]):
        assert execute([*arguments, *more]) == 2
        assert capsys.readouterr() == ("", f"palmette: {expected}\n")
    plan, profile = pt.load_plan(arguments[1]), pt.load_profile(runs.profile(TINY))
    cluster = pt.load_cluster(runs.cluster)
    with pytest.raises(InputError) as error:
        pt.run(plan, runs.folder / "out", profile=profile, cluster=cluster, testbed="none", trust_code=True)
    assert str(error.value) == expected


def test_a_source_that_a_plan_does_not_use_need_not_name_data(runs: Runs) -> None:
    own(runs, server=None)
    alone = phase(source("phone", 12, "P"), instance("P", 1, 5, "phone"))
    out = ["-o", str(runs.folder / "out"), "--quiet"]
    assert execute([*runs.arguments(TINY, alone), "--iterations", "1", *out]) == 0


def test_data_that_does_not_fit_is_told_with_its_owner(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    original = runs.cluster.read_text()

    def said(server: str, model: str = TINY) -> str:
        runs.cluster.write_text(original)
        own(runs, server=server)
        deep = len(load_network(model).layers)
        tree = phase(
            source("phone", 12, "P"),
            source("server", 8, "S"),
            instance("P", 1, deep, "phone"),
            instance("S", 1, deep, "server"),
        )
        arguments = [*runs.arguments(model, tree), "--iterations", "3", "--quiet", "-o", str(runs.folder / "out")]
        assert execute(arguments) != 0
        return capsys.readouterr().err

    where = "palmette: nodes.server.source.data: "
    assert said("nowhere").startswith(f"{where}nowhere: no such data set")
    assert said("tests.runtime.networks:flat_images").startswith(f"{where}tests.runtime.networks:flat_images[")
    narrow = "tests.runtime.networks:three_classes"
    assert said("digits", narrow) == (
        f"{where}digits: it has 10 classes, but {narrow} has 3; expected data with no more\n"
    )
    labels = said(LABELS)
    assert labels.startswith("palmette: node server: the data of server has label ")
    assert "; expected 0 to 9, the classes of the network" in labels
    assert labels.count("\n") == 1


def test_sources_without_data_share_the_digits_unless_other_data_is_given(runs: Runs) -> None:
    out, given = runs.folder / "out", runs.folder / "given"
    arguments = [*runs.arguments(TINY, JOINING), "--iterations", "2", *COMMON_OPTIONS]
    assert execute([*arguments, "-o", str(out)]) == 0
    assert execute([*arguments, "--data", COMMON, "-o", str(given)]) == 0
    assert off(weights(out), weights(given)) == 0
    assert json.loads((out / "run.json").read_text())["options"]["data"] == "digits"
