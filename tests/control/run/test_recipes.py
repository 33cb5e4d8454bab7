"""A user's own training across nodes leaves the weights of one process: other losses, other targets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.cli import execute
from palmette.control.run.request import training_options
from palmette.errors import InputError
from palmette.runtime.data.batches import Batches
from palmette.runtime.options import Options
from palmette.zoo.capture import LayerChain
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network
from palmette.zoo.recipes.objective import like_outputs
from tests.control.run.test_processes import assert_equal, trees
from tests.runtime import recipes
from tests.runtime.plain import PlainUpdates
from tests.runtime.rig import off
from tests.runtime.world import Runs, lines, losses, weights

MODULE = "tests.runtime.recipes"
ITERATIONS, BATCH, LR = 6, 12, 0.1


def one_process(
    name: str, loss: Callable[[Any, Any], Tensor], batch: int = BATCH
) -> tuple[list[float], dict[str, Tensor]]:
    """Plain PyTorch: the user's module, and the mean loss of each batch."""
    network = load_network(f"{MODULE}:{name}", seed=0)
    module = LayerChain(layer.module for layer in network.layers).double().train()
    data = load_data(f"{MODULE}:{name}", network.input_shape).train
    batches, lost = Batches(len(data), batch, 0), []
    optimizer = torch.optim.SGD(module.parameters(), lr=LR)
    for iteration in range(ITERATIONS):
        inputs, targets = data.batch(batches.indices(iteration))
        outputs = module(inputs.double() if inputs.is_floating_point() else inputs)
        found = loss(outputs, like_outputs(targets, outputs))
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        lost.append(found.item())
    return lost, {name: value for layer in network.layers for name, value in layer.module.state_dict().items()}


CASES: dict[str, Callable[[Any, Any], Tensor]] = {
    "regression": nn.MSELoss(),
    "multi_label": nn.BCEWithLogitsLoss(),
    "weighted": lambda o, t: nn.functional.cross_entropy(o, t, torch.tensor([0.2, 1.0, 3.0]).double()),
    "tokens": nn.CrossEntropyLoss(),
    "padded_tokens": nn.CrossEntropyLoss(),
    "two_heads": lambda o, t: recipes.two_heads_loss(o, t).mean(),
    "segmentation": nn.CrossEntropyLoss(),
}


def trained(runs: Runs, name: str, tree: str, *more: str) -> tuple[list[float], dict[str, Tensor]]:
    depth = len(load_network(f"{MODULE}:{name}").layers)
    arguments = runs.arguments(f"{MODULE}:{name}", trees(depth)[tree])
    chosen = ["--iterations", str(ITERATIONS), "--lr", str(LR), "--dtype", "float64", "--quiet"]
    assert execute([*arguments, *chosen, *more, "-o", str(runs.folder / "out")]) == 0
    return losses(runs.folder / "out"), weights(runs.folder / "out")


@pytest.mark.parametrize("name", list(CASES))
def test_any_loss_equals_one_process(runs: Runs, name: str) -> None:
    found_losses, found = trained(runs, name, "three replicas" if name == "padded_tokens" else "hierarchy")
    expected_losses, expected = one_process(name, CASES[name])
    assert found_losses == pytest.approx(expected_losses, rel=1e-9)
    assert off(found, expected) <= 1e-10


def test_a_recipe_says_how_to_train(runs: Runs) -> None:
    name, depth = f"{MODULE}:decayed", len(load_network(f"{MODULE}:decayed").layers)
    arguments = [*runs.arguments(name, trees(depth)["hierarchy"]), "--iterations", "6", "--dtype", "float64"]
    assert execute([*arguments, "--quiet", "-o", str(runs.folder / "out")]) == 0
    network = load_network(name, seed=0)
    module = LayerChain(layer.module for layer in network.layers).double()
    given = recipes.decayed
    options = Options(
        optimizer=given.optimizer or "",
        lr=0.01,
        groups=given.groups or {},
        schedule="cosine",
        warmup=2,
        clip_norm=0.5,
        accumulate=2,
    )
    updates = PlainUpdates({n: w for each in network.layers for n, w in each.module.named_parameters()}, options, 6)
    data = load_data(name, network.input_shape).train
    for iteration in range(6):
        inputs, targets = data.batch(Batches(len(data), BATCH, 0).indices(iteration))
        updates.step(nn.functional.mse_loss(module(inputs.double()), targets.double()))
    expected = {n: w for each in network.layers for n, w in each.module.state_dict().items()}
    assert off(weights(runs.folder / "out"), expected) <= 1e-9


def test_the_command_line_replaces_what_a_recipe_says(runs: Runs) -> None:
    name, depth = f"{MODULE}:decayed", len(load_network(f"{MODULE}:decayed").layers)
    arguments = [*runs.arguments(name, trees(depth)["alone"]), "--iterations", "2", "--quiet"]
    assert execute([*arguments, "--optimizer", "sgd", "--clip-norm", "3", "-o", str(runs.folder / "out")]) == 0
    found = json.loads((runs.folder / "out" / "run.json").read_text())["options"]
    expected = {"optimizer": "sgd", "lr": 0.01, "groups": {}, "clip_norm": 3.0, "accumulate": 2, "warmup": 2}
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"lr": -1}, "recipe.lr: -1: expected a number above 0"),
        ({"momentum": 0.9}, "recipe.momentum: 0.9: adam has no such option; expected an optimizer that has"),
        ({"groups": {"*.bias": {"wd": 0}}}, "recipe.groups: *.bias: wd: no such option of adam; expected one of"),
        ({"clip_norm": "much"}, "recipe.clip_norm: much: expected a number above 0"),
    ],
)
def test_what_a_recipe_says_wrongly_is_named_as_its_own(wrong: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as refused:
        training_options(replace(recipes.regression, optimizer="adam", **wrong))
    assert str(refused.value).startswith(line)


def test_there_is_no_accuracy_to_stop_by_without_classes(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    name, depth = f"{MODULE}:regression", len(load_network(f"{MODULE}:regression").layers)
    arguments = [*runs.arguments(name, trees(depth)["alone"]), "--early-stop", "accuracy:2"]
    assert execute([*arguments, "-o", str(runs.folder / "out")]) == 2
    expected = "--early-stop: accuracy:2: there is no metric accuracy here; expected one of loss, mae and a patience"
    assert capsys.readouterr().err == f"palmette: {expected}\n"
    assert execute([*arguments[:-2], "--stop-at", "accuracy:0.9", "-o", str(runs.folder / "out")]) == 2
    assert "--stop-at: accuracy:0.9: there is no metric accuracy here" in capsys.readouterr().err
    stopping = ["--early-stop", "mae:1:min", "--epochs", "2", "--quiet", "-o", str(runs.folder / "out")]
    assert execute([*arguments[:-2], *stopping]) == 0
    assert (runs.folder / "out" / "best.safetensors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("tree", ["three replicas", "many sources", "there and back"])
@pytest.mark.parametrize("name", ["regression", "tokens", "two_heads"])
def test_any_loss_equals_one_process_over_other_trees(runs: Runs, name: str, tree: str) -> None:
    found_losses, found = trained(runs, name, tree)
    expected_losses, expected = one_process(name, CASES[name], trees(6)[tree].batch)
    assert found_losses == pytest.approx(expected_losses, rel=1e-9)
    assert off(found, expected) <= 1e-10


def test_metrics_are_measured_on_held_out_data(runs: Runs) -> None:
    depth = len(load_network(f"{MODULE}:regression").layers)
    arguments = runs.arguments(f"{MODULE}:regression", trees(depth)["cut in two"])
    assert execute([*arguments, "--epochs", "1", "--quiet", "-o", str(runs.folder / "out")]) == 0
    (evaluated,) = [line for line in lines(runs.folder / "out" / "metrics.jsonl") if "accuracy" in line]
    assert evaluated["accuracy"] is None
    assert 0 < evaluated["mae"] < 10


def test_a_transform_runs_where_the_first_layer_does_and_bytes_travel(runs: Runs) -> None:
    """The same weights wherever that is, seeds included; an image is 36 bytes on the wire, its label one."""
    arguments = ["--iterations", "8", "--dtype", "float64", "--quiet", "--force", "-o", str(runs.folder / "out")]
    found = {}
    for tree in ("alone", "all in the cloud"):
        assert execute([*runs.arguments(f"{MODULE}:transformed", trees(4)[tree]), *arguments]) == 0
        found[tree] = weights(runs.folder / "out")
    assert off(found["alone"], found["all in the cloud"]) == 0
    sent = [line["bytes"] for line in lines(runs.folder / "out" / "trace.jsonl") if line["op"] == "send"]
    assert all(12 * 37 <= each <= 12 * 37 + 8 for each in sent)
    data = load_data(f"{MODULE}:transformed", (1, 6, 6)).train
    assert not torch.equal(data.decoder.decode(data.stored([0]), [1]), data.decoder.decode(data.stored([0])))


def test_a_recipe_of_the_zoo_is_its_network_and_data(runs: Runs) -> None:
    options = Options(optimizer="sgd", lr=0.05, seed=3)
    tree = trees(7)["cut in two"]
    assert_equal(runs, "lenet5", tree, options, "--recipe", f"{MODULE}:zoo", iterations=3)


BROKEN = """
import torch
from torch import nn
import palmette as pt

class Items(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, k): return torch.full((4,), float(k)), torch.zeros(2)

def network(): return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
def lost(outputs, targets): return torch.zeros(3) @ outputs
def scalar(outputs, targets): return (outputs - targets).square().mean()
def coupled(outputs, targets): return (outputs - outputs.mean(0)).square().sum(1)
def uncounted(outputs, targets): return (outputs - targets).square().sum(), 1
def counted_each(outputs, targets): return (outputs - targets).square().sum(), torch.ones(len(outputs))
def counted_nan(outputs, targets): return (outputs - targets).square().sum(), float("nan")
def counted_words(outputs, targets): return (outputs - targets).square().sum(), "three"
def no_number(outputs, targets): return (outputs - targets).square() * float("nan")
def no_network(): return 7

right = pt.Recipe(model=network, data=Items(), loss=nn.MSELoss())
no_loss = pt.Recipe(model=network, data=Items())
wrong_shape = pt.Recipe(model=network, data=Items(), loss=lost)
one_number = pt.Recipe(model=network, data=Items(), loss=scalar)
of_all = pt.Recipe(model=network, data=Items(), loss=coupled)
one = pt.Recipe(model=network, data=Items(), loss=uncounted)
many = pt.Recipe(model=network, data=Items(), loss=counted_each)
nan = pt.Recipe(model=network, data=Items(), loss=counted_nan)
words = pt.Recipe(model=network, data=Items(), loss=counted_words)
no_data = pt.Recipe(model=network, data=7, loss=nn.MSELoss())
not_a_number = pt.Recipe(model=network, data=Items(), loss=no_number)
no_module = pt.Recipe(model=no_network, data=Items(), loss=nn.MSELoss())
too_narrow = pt.Recipe(model=nn.Sequential(nn.Linear(1, 1)), data=Items(), loss=nn.MSELoss())
of_three = pt.Recipe(model=network, data=Items(), loss=nn.TripletMarginLoss())
no_such_weight = pt.Recipe(model=network, data=Items(), loss=nn.MSELoss(), groups={"*.biass": {"lr": 0.1}})
number = 7
def raises() -> pt.Recipe: raise OSError("the disk is gone")
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("no_loss", "data: broken_recipes:no_loss: its targets are no class numbers; expected a recipe with a loss"),
        ("wrong_shape", "loss: broken_recipes:wrong_shape: it fails: RuntimeError"),
        ("one_number", "loss: broken_recipes:one_number: it returns one number for all samples"),
        ("of_all", "loss: broken_recipes:of_all: the losses of a batch's parts do not add up to that of the batch"),
        ("one", "loss: broken_recipes:one: a batch counts 1, its parts 1 and 1; expected counts that add up"),
        ("many", "loss: broken_recipes:many: its count is 3 numbers; expected one number, 0 or more"),
        ("nan", "loss: broken_recipes:nan: its count is nan; expected one number, 0 or more"),
        ("words", "loss: broken_recipes:words: it fails: "),
        ("no_data", "data: broken_recipes:no_data: is a int; expected a data set with __len__ and __getitem__"),
        ("not_a_number", "loss: broken_recipes:not_a_number: it is NaN for the first samples; expected a number"),
        ("no_module", "model: broken_recipes:no_module: returned a int; expected a torch.nn.Module"),
        ("too_narrow", "model: Sequential: cannot be cut into layers: its layer 0 fails: RuntimeError"),
        ("of_three", "loss: broken_recipes:of_three: it fails: TypeError"),
        ("no_such_weight", "recipe.groups: *.biass: no such weight; did you mean "),
        ("number", "--recipe: broken_recipes:number: is a int; expected a palmette.Recipe"),
        (
            "raises",
            "--recipe: broken_recipes:raises: calling it failed: OSError: the disk is gone (",
        ),
        ("rihgt", "--recipe: broken_recipes:rihgt: no such recipe in broken_recipes; did you mean right?"),
    ],
)
def test_a_recipe_that_cannot_be_trained_says_why(
    runs: Runs, name: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs.folder / "broken_recipes.py").write_text(BROKEN)
    monkeypatch.chdir(runs.folder)
    monkeypatch.syspath_prepend(str(runs.folder))
    arguments = runs.arguments("broken_recipes:right", trees(3)["alone"])
    capsys.readouterr()
    out = runs.folder / "out"
    assert execute([*arguments, "--recipe", f"broken_recipes:{name}", "--iterations", "1", "-o", str(out)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"palmette: {expected}")
    assert len(said.err.splitlines()) == 1
    assert name in ("number", "rihgt") or re.search(r" \(\S*broken_recipes\.py:\d+\)\n$", said.err)
    assert said.out == ""
    assert not out.exists()
