"""A worker holds the layers of its own instances and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from palmette.cli import execute
from palmette.runtime.options import Options
from palmette.runtime.training.loop import Training
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.weights import shared_copy
from palmette.zoo.recipes.objective import classification
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.rig import Rig, given, random_layers
from tests.runtime.world import ROOT, Runs, hired

TREE = phase(
    source("a", 3, "1"),
    source("a", 2, "x"),
    instance("1", 1, 2, "a", "2"),
    instance("2", 3, 4, "b", "3"),
    instance("3", 5, 6, "a"),
    instance("x", 1, 6, "c"),
)


def test_a_worker_holds_the_layers_of_its_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(random_layers(random.Random(5), 6), (5,))
    held: dict[str, set[int]] = {}
    usual = Compute.__init__

    def noted(self: Compute, tree: object, at: str, layers: dict[int, nn.Module], *more: Any, **named: Any) -> None:
        held[at] = set(layers)
        usual(self, tree, at, layers, *more, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Compute, "__init__", noted)
    with rig.crew(TREE, cluster(link("a", "b"), link("b", "c"), a=node(9), b=node(), c=node())) as (crew, _):
        assert held == {"a": {1, 2, 5, 6}, "b": {3, 4}, "c": {1, 2, 3, 4, 5, 6}}
        assert {name.split(".")[0] for name in given(crew, "b", [3, 4])} <= {"l3", "l4"}


def test_replicas_on_one_node_share_their_weights() -> None:
    layer = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    other = shared_copy(layer)
    assert [id(weight) for weight in other.parameters()] == [id(weight) for weight in layer.parameters()]
    assert all(a is not b for a, b in zip(other.buffers(), layer.buffers(), strict=True))


def test_gradients_are_gone_after_the_update() -> None:
    tree = phase(source("a", 4, "all"), instance("all", 1, 1, "a"))
    layer = nn.Linear(5, 3)
    compute = Compute(tree, "a", {1: layer}, Options(), objective=classification(3))
    compute.forward(0, [(torch.randn(4, 5),)], [torch.zeros(4, 8, dtype=torch.uint8)], 0)
    compute.backward(0, None)
    assert sum(part.numel() for part in compute.gradients.of(0, 1)) == 18
    compute.update(0)
    assert not compute.gradients.has(1)
    assert all(weight.grad is None for weight in layer.parameters())


def resident_mib(pid: int) -> float:
    """Memory of a process that it shares with nobody."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")) / 1024


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_device_that_trains_two_layers_does_not_hold_vgg16(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    runs, model, found = Runs(tmp_path), "vgg16?size=32", {}
    tree = phase(source("phone", 2, "a"), instance("a", 1, 2, "phone", "b"), instance("b", 3, 21, "cloud"))
    usual = Training._gather

    with hired() as crews:

        def measured(self: Training, *arguments: object) -> None:
            found.update({at: resident_mib(pid) for at, pid in crews[0].pids.items()})
            usual(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(Training, "_gather", measured)
        arguments = runs.arguments(model, tree)
        assert execute([*arguments, "--iterations", "3", "--quiet", "-o", str(tmp_path / "out")]) == 0
    whole_mib = (tmp_path / "out" / "model.safetensors").stat().st_size / 2**20
    assert whole_mib > 100
    assert found["cloud"] > whole_mib
    assert found["phone"] < found["cloud"] - whole_mib
    assert found["phone"] < 150  # Python, torch's own pages and the digits
