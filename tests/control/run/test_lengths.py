"""Batches that are as long as the longest of their samples, across nodes: equal to one process with a DataLoader.

The networks notice how long a batch is, so that padding to any other length would leave other weights.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from palmette.cli import execute
from palmette.runtime.data.batches import Batches
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.spec.plan import Phase
from palmette.zoo.models import load_network
from tests.control.hub_workers import HubWorkers
from tests.control.run.test_processes import trees
from tests.runtime import length_recipes
from tests.runtime.rig import off
from tests.runtime.world import CLUSTER, Runs, lines, losses, weights

MODULE = "tests.runtime.length_recipes"
ITERATIONS = 6


def one_process(recipe: str, samples: int, dtype: torch.dtype = torch.float64) -> tuple[list[float], dict[str, Tensor]]:
    """Plain PyTorch: the user's own module, and each batch collated as a whole."""
    given: Any = getattr(length_recipes, recipe)
    module, data = load_network(f"{MODULE}:{recipe}", seed=0).module, given.data[0]
    assert module is not None
    module.to(dtype).train()
    optimizer, lost = torch.optim.SGD(module.parameters(), lr=0.1), []
    for iteration in range(ITERATIONS):
        batch = [data[k] for k in Batches(len(data), samples, 0).indices(iteration).tolist()]
        inputs, targets = given.collate(batch)
        inputs = inputs if given.transform is None else torch.stack([given.transform(row) for row in inputs])
        found = module(**inputs) if isinstance(inputs, dict) else module(inputs)
        loss = given.loss(found, targets.to(dtype) if targets.is_floating_point() else targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lost.append(loss.item())
    return lost, module.state_dict()


def run(runs: Runs, recipe: str, tree: Phase, *more: str) -> None:
    chosen = ["--iterations", str(ITERATIONS), "--lr", "0.1", "--quiet", "-o", str(runs.folder / "out")]
    assert execute([*runs.arguments(f"{MODULE}:{recipe}", tree), *chosen, *more]) == 0


@pytest.mark.parametrize(
    ("recipe", "tree"),
    [
        ("encoder", "cut in three"),
        ("encoder", "hierarchy"),
        ("denoiser", "two trees"),
        ("shifting", "cut in two"),
        pytest.param("recurrent", "there and back", marks=pytest.mark.slow),
        pytest.param("recurrent", "three replicas", marks=pytest.mark.slow),
        pytest.param("denoiser", "replicas on one node", marks=pytest.mark.slow),
        pytest.param("encoder", "many sources", marks=pytest.mark.slow),
    ],
)
def test_lengths_by_batch_equal_one_process(runs: Runs, recipe: str, tree: str) -> None:
    placed = trees(len(load_network(f"{MODULE}:{recipe}").layers))[tree]
    run(runs, recipe, placed, "--dtype", "float64")
    expected_losses, expected = one_process(recipe, placed.batch)
    assert losses(runs.folder / "out") == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(runs.folder / "out"), expected) <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["encoder", "shifting"])
@pytest.mark.parametrize("way", ["tls", "hub"])
def test_lengths_by_batch_on_networks_nobody_trusts(runs: Runs, recipe: str, way: str) -> None:
    placed = trees(len(load_network(f"{MODULE}:{recipe}").layers))["hierarchy"]
    if way == "tls":
        run(runs, recipe, placed, "--dtype", "float64", "--transport", "tls")
    else:
        runs.cluster.write_text(CLUSTER.replace("tier:", "threads: 1, tier:"))
        with HubWorkers(runs.folder) as place:
            place.start(allowed=AllowedNames(frozenset({f"{MODULE}:{recipe}"})))
            run(runs, recipe, placed, "--dtype", "float64", *place.options)
    assert off(weights(runs.folder / "out"), one_process(recipe, placed.batch)[1]) <= 1e-9


def test_messages_are_as_long_as_their_batch(runs: Runs) -> None:
    run(runs, "encoder", trees(6)["cut in two"])
    sent = {
        line["bytes"]
        for line in lines(runs.folder / "out" / "trace.jsonl")
        if line["op"] == "send" and line["node"] == "cloud"
    }
    data = length_recipes.encoder.data[0]
    batches = [Batches(len(data), 12, 0).indices(k).tolist() for k in range(ITERATIONS)]
    longest = {max(len(data.items[k]) for k in batch) for batch in batches}
    assert len(longest) > 1
    header = 1 + 2 * 4
    assert sent == {header + 12 * length * 8 * 4 for length in longest}


@pytest.mark.slow
def test_outputs_of_varying_lengths_travel_as_new_ones(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    """As ``int8``, which ``int4-delta`` sends a sample by that it has not had; a warning says so."""
    placed = trees(6)["cut in two"]
    for codec in ("int4-delta", "int8"):
        coded = tuple(each.model_copy(update={"codec": codec}) for each in placed.instances)
        tree = placed.model_copy(update={"instances": coded})
        words = runs.arguments(f"{MODULE}:encoder", tree)
        assert execute([*words, "--iterations", "8", "--dtype", "float64", "-o", str(runs.folder / codec)]) == 0
        name = next(each.id for each in coded if each.into is not None)
        said = (
            f"warning: lengths of samples vary: outputs of {name} travel as new ones each time"
            in capsys.readouterr().err
        )
        assert said == (codec == "int4-delta")
    assert off(weights(runs.folder / "int4-delta"), weights(runs.folder / "int8")) == 0


def test_a_transform_that_needs_all_of_a_sample_keeps_one_length() -> None:
    assert load_network(f"{MODULE}:shifting").varying
    assert not load_network(f"{MODULE}:turning").varying


@pytest.mark.slow
def test_float32_equals_one_process(runs: Runs) -> None:
    run(runs, "encoder", trees(6)["hierarchy"])
    assert off(weights(runs.folder / "out"), one_process("encoder", 12, torch.float32)[1]) <= 1e-4
