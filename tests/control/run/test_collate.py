"""Samples of varying length, padded by the user's own collate function, across nodes: equal to one process."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from palmette.cli import execute
from palmette.runtime.data.batches import Batches
from palmette.zoo.capture import LayerChain
from palmette.zoo.models import load_network
from tests.control.run.test_processes import trees
from tests.runtime import recipes
from tests.runtime.rig import off
from tests.runtime.world import Runs, lines, losses, weights

MODULE = "tests.runtime.recipes"
ITERATIONS = 6


def one_process(accumulate: int) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Plain PyTorch: each batch is collated as a whole, and so as long as its own longest."""
    network, data = load_network(f"{MODULE}:ragged", seed=0), recipes.Ragged(recipes.SAMPLES, 4)
    module = LayerChain(layer.module for layer in network.layers).double()
    optimizer, lost = torch.optim.SGD(module.parameters(), lr=0.1), []
    for iteration in range(ITERATIONS):
        numbers = Batches(len(data), 12, 0).indices(iteration).tolist()
        inputs, tags = recipes.padded_batch([data[k] for k in numbers])
        found = nn.functional.cross_entropy(module(*(inputs[name] for name in network.input_names)), tags)
        (found / accumulate).backward()
        lost.append(found.item())
        if (iteration + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return lost, {name: value for layer in network.layers for name, value in layer.module.state_dict().items()}


@pytest.mark.parametrize(
    ("recipe", "tree", "accumulate"),
    [
        ("ragged", "three replicas", 1),
        ("ragged_dicts", "two trees", 3),
        pytest.param("ragged", "hierarchy", 1, marks=pytest.mark.slow),
    ],
)
def test_ragged_samples_equal_one_process(runs: Runs, recipe: str, tree: str, accumulate: int) -> None:
    name = f"{MODULE}:{recipe}"
    depth = len(load_network(name).layers)
    assert depth > 2
    out = runs.folder / "out"
    chosen = ["--iterations", str(ITERATIONS), "--lr", "0.1", "--accumulate", str(accumulate), "--dtype", "float64"]
    assert execute([*runs.arguments(name, trees(depth)[tree]), *chosen, "--quiet", "-o", str(out)]) == 0
    expected_losses, expected = one_process(accumulate)
    assert losses(out) == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(out), expected) <= 1e-9


@pytest.mark.slow
def test_ragged_dicts_for_bert_equal_one_process(runs: Runs) -> None:
    given = pytest.importorskip("tests.runtime.transformer_recipes")
    name, data = "tests.runtime.transformer_recipes:bert", given.Encoded(recipes.SAMPLES, 4)
    network = load_network(name, seed=0)
    assert network.module is not None
    module = network.module.double().train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for iteration in range(4):
        batch = given.collate([data[k] for k in Batches(len(data), 12, 0).indices(iteration).tolist()])
        labels = batch.pop("labels")
        total, count = given.loss(module(**batch), labels)
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    out = runs.folder / "out"
    chosen = ["--iterations", "4", "--lr", "0.1", "--dtype", "float64", "--quiet", "-o", str(out)]
    assert execute([*runs.arguments(name, trees(len(network.layers))["three replicas"]), *chosen]) == 0
    assert off(weights(out), module.state_dict()) <= 1e-9


def test_held_out_samples_are_collated_too(runs: Runs) -> None:
    name = f"{MODULE}:ragged"
    arguments = [*runs.arguments(name, trees(len(load_network(name).layers))["alone"]), "--epochs", "1", "--quiet"]
    assert execute([*arguments, "-o", str(runs.folder / "out")]) == 0
    (found,) = [line for line in lines(runs.folder / "out" / "metrics.jsonl") if "accuracy" in line]
    assert 0 < found["loss"] < 5


ODD = """
import torch
from torch import nn
import palmette as pt

class Items(torch.utils.data.Dataset):
    def __init__(self, odd=None): self.odd = odd
    def __len__(self): return 40
    def __getitem__(self, k):
        if k != 33 or self.odd is None: return torch.full((4,), float(k)), torch.zeros(2)
        if self.odd == "nan": return torch.full((4,), float("nan")), torch.zeros(2)
        if self.odd == "nan target": return torch.zeros(4), torch.full((2,), float("nan"))
        return (torch.zeros(5), torch.zeros(2)) if self.odd == "ragged" else (torch.zeros(4), torch.zeros(3))

class Stored(Items):
    def stored(self, k): return b"1234"
    def decode(self, stored): return torch.zeros(4)

def network(): return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
def made(data, **more): return pt.Recipe(model=network, data=data, loss=nn.MSELoss(), **more)
def padded(items):
    return tuple(nn.utils.rnn.pad_sequence([item[k] for item in items], batch_first=True) for k in (0, 1))
def fails(items): return items[700]
def summed(items): return sum(item[0] for item in items), torch.zeros(len(items), 2)
def words(items): return ["one"] * len(items), torch.zeros(len(items), 2)
def mixed(items):
    inputs, targets = padded(items)
    return inputs - inputs.mean(0), targets

right = made(Items())
nan = made(Items("nan"))
nan_target = made(Items("nan target"))
ragged = made(Items("ragged"))
ragged_target = made(Items("ragged target"))
failing = made(Items(), collate=fails)
shapeless = made(Items(), collate=summed)
wordy = made(Items(), collate=words)
mixing = made(Items(), collate=mixed)
storing = made(Stored(), collate=padded)
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nan", "data: odd_recipes:nan[33]: its input has NaN; expected numbers"),
        ("nan_target", "data: odd_recipes:nan_target[33]: its target has NaN; expected numbers"),
        ("ragged", "data: odd_recipes:ragged[33]: is a tensor of 5; the network takes 4"),
        (
            "ragged_target",
            "data: odd_recipes:ragged_target[33]: its target is 3 of float32, that of the first sample 2",
        ),
        (
            "failing",
            "data: odd_recipes:failing: its collate failed: IndexError: list index out of range (",
        ),
        ("shapeless", "data: odd_recipes:shapeless: its collate makes 4 of 40 samples; expected 40 rows"),
        ("wordy", "data: odd_recipes:wordy: its collate returns a str; expected tensors, in a tuple or a dict"),
        ("mixing", "data: odd_recipes:mixing: its collate gives sample 0 another row beside others; expected a row"),
        ("storing", "data: odd_recipes:storing: has stored and decode, which leave nothing to collate"),
    ],
)
def test_data_that_cannot_be_trained_on_says_why(
    runs: Runs, name: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs.folder / "odd_recipes.py").write_text(ODD)
    monkeypatch.chdir(runs.folder)
    monkeypatch.syspath_prepend(str(runs.folder))
    arguments = runs.arguments("odd_recipes:right", trees(3)["alone"])
    capsys.readouterr()
    out = runs.folder / "out"
    assert execute([*arguments, "--recipe", f"odd_recipes:{name}", "--iterations", "1", "-o", str(out)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"palmette: {expected}")
    assert len(said.err.splitlines()) == 1
    assert name != "failing" or said.err.endswith("odd_recipes.py:23)\n")
    assert said.out == ""
    assert not out.exists()


def test_ragged_samples_without_a_collate_are_named(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = runs.arguments(f"{MODULE}:tokens", trees(3)["alone"])
    capsys.readouterr()
    arguments += ["--recipe", f"{MODULE}:uncollated", "--iterations", "1", "-o", str(runs.folder / "out")]
    assert execute(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"palmette: data: {MODULE}:uncollated[1]: its input is 4 of int64, that of the first sample 5"
    )
    assert "expected one form, e.g. by padding in a recipe's collate (" in said
    assert len(said.splitlines()) == 1
