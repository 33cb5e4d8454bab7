"""Modules and data sets as objects of the program: profiled, planned for and trained as those with a name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import palmette as pt
from palmette.runtime.data.batches import Batches
from palmette.spec.cluster import Cluster
from tests.runtime.rig import off
from tests.runtime.world import Runs, losses, weights

CLUSTER = """\
nodes:
  phone: {tier: device, host: local, power: {idle: 2 W, busy: 5 W}, source: {samples: 40}}
  server: {tier: edge, host: local, power: {idle: 7 W, busy: 22 W}}
links:
  - {between: [phone, server], bandwidth: 200 Mbit/s}
"""
BATCH, ITERATIONS, LR = 8, 5, 0.1


def network() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)).double()


def samples(many: int) -> TensorDataset:
    draw = torch.Generator().manual_seed(many)
    return TensorDataset(torch.randn(many, 6, generator=draw).double(), torch.randint(0, 3, (many,), generator=draw))


def plain(module: nn.Module, data: Any) -> tuple[list[float], dict[str, Tensor]]:
    """The same batches in one process."""
    optimizer, batches, found = torch.optim.SGD(module.parameters(), lr=LR), Batches(len(data), BATCH, 0), []
    for number in range(ITERATIONS):
        chosen = [data[int(k)] for k in batches.indices(number)]
        loss = nn.functional.cross_entropy(
            module(torch.stack([x for x, _ in chosen])), torch.stack([y for _, y in chosen])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found, dict(module.state_dict())


@pytest.fixture
def cluster(runs: Runs) -> Cluster:
    runs.cluster.write_text(CLUSTER)
    return pt.load_cluster(runs.cluster)


@pytest.mark.slow
def test_a_module_and_data_sets_are_profiled_planned_and_trained_as_in_one_process(
    runs: Runs, cluster: Cluster
) -> None:
    module, train = network(), samples(40)
    profile = pt.profile(module, cluster=cluster, data=train)
    assert (profile.model, profile.sample_bytes) == ("Sequential", 6 * 8)
    plan = pt.plan("all-edge", profile=profile, cluster=cluster, batch=BATCH)
    options: dict[str, Any] = {"iterations": ITERATIONS, "lr": LR, "dtype": "float64", "testbed": "none"}
    outcome = pt.run(plan, runs.folder / "out", model=module, data=(train, samples(12)), **options)

    expected_losses, expected = plain(network(), train)
    assert losses(runs.folder / "out") == pytest.approx(expected_losses, rel=1e-9)
    assert off(weights(runs.folder / "out"), expected) <= 1e-10
    assert outcome.evaluation.accuracy in [k / 12 for k in range(13)]


@pytest.mark.slow
def test_strategies_plan_for_what_they_profile_themselves(cluster: Cluster) -> None:
    recipe = pt.Recipe(model=network, data=samples(40))
    plan = pt.plan("all-edge", profile=recipe, cluster=cluster, batch=BATCH)
    assert plan.inputs.profile.sample_bytes == 6 * 8
    assert plan.phases[0].nodes() == ["phone", "server"]


@pytest.mark.slow
def test_a_network_that_is_named_is_profiled_with_data_that_is_not(cluster: Cluster) -> None:
    shape = torch.zeros(20, 3, 32, 32, dtype=torch.uint8)
    found = pt.profile("lenet5", cluster=cluster, data=TensorDataset(shape, torch.zeros(20, dtype=torch.long)))
    assert (found.model, found.sample_bytes) == ("lenet5", 3 * 32 * 32)


@pytest.mark.slow
def test_a_recipe_takes_other_data(runs: Runs, cluster: Cluster) -> None:
    recipe = pt.Recipe(
        model=network, data=samples(40), metrics={"cross": nn.CrossEntropyLoss()}, loss=nn.CrossEntropyLoss()
    )
    plan = pt.plan("all-edge", profile=recipe, cluster=cluster, batch=BATCH)
    asked: dict[str, Any] = {"recipe": recipe, "iterations": 1, "dtype": "float64", "testbed": "none"}
    outcome = pt.run(plan, runs.folder / "out", data=(samples(40), samples(12)), **asked)
    assert outcome.evaluation.metrics["cross"] == pytest.approx(outcome.evaluation.loss)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            {"recipe": nn.Linear(2, 2)},
            "recipe: Linear: expected a palmette.Recipe, or its name; a module is given as model",
        ),
        (
            {"recipe": "a:b", "model": nn.Linear(2, 2)},
            "model: Linear: the recipe has its own; expected one of both",
        ),
        ({"model": 3}, "model: int: expected a torch.nn.Module, or its name"),
        (
            {"data": samples(4)},
            "model: Sequential: the plan's network was an object; expected it again, as model or in a recipe",
        ),
        ({"model": network(), "data": 3}, "data: recipe: is a int; expected a data set with __len__ and __getitem__"),
        (
            {"model": network(), "data": DataLoader(samples(4))},
            "data: recipe: is a DataLoader; expected a data set with __len__ and __getitem__",
        ),
    ],
)
def test_objects_that_do_not_fit_are_refused_in_one_line(
    runs: Runs, cluster: Cluster, arguments: dict[str, Any], line: str
) -> None:
    profile = pt.profile(network(), cluster=cluster, input_shape=(6,))
    plan = pt.plan("all-edge", profile=profile, cluster=cluster, batch=BATCH)
    with pytest.raises(pt.InputError) as caught:
        pt.run(plan, runs.folder / "out", iterations=1, **arguments)
    assert re.sub(r" \(\S*test_objects.py:\d+\)$", "", str(caught.value)) == line
    assert not (runs.folder / "out").exists()


def test_a_network_is_profiled_for_a_cluster_only() -> None:
    with pytest.raises(pt.InputError) as caught:
        pt.plan("all-edge", profile="lenet5")
    assert str(caught.value) == "cluster: missing: expected one, to profile the network on"


NOTEBOOK = """
import sys
import torch
from torch import nn
import palmette as pt

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 9), nn.Linear(9, 3)

    def forward(self, values):
        return self.last(self.first(values).tanh())

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, k):
        return torch.full((6,), k / 40), k % 3

cluster = pt.load_cluster(sys.argv[1])
plan = pt.plan("all-edge", profile=pt.profile(Net(), cluster=cluster, data=Samples()), cluster=cluster, batch=8)
outcome = pt.run(plan, sys.argv[2], model=Net(), data=Samples(), iterations=2, testbed="none")
print(outcome.ended)
"""


@pytest.mark.slow
def test_what_is_defined_in_a_notebook_goes_to_the_workers(runs: Runs, tmp_path: Path) -> None:
    runs.cluster.write_text(CLUSTER)
    command = [sys.executable, "-c", NOTEBOOK, str(runs.cluster), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")
