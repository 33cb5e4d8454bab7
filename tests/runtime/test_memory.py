"""A worker holds the layers of its own instances and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from palmette.cli import execute
from palmette.runtime.options import Options
from palmette.runtime.training.loop import Training
from palmette.runtime.worker.accumulation import SummingCompute
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.weights import shared_copy
from palmette.spec.plan import Phase
from palmette.zoo.recipes.objective import classification
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.rig import Rig, given, random_layers
from tests.runtime.test_recompute import LiveBytes
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
    compute.optimizers.update(0)
    assert not compute.gradients.has(1)
    assert all(weight.grad is None for weight in layer.parameters())


WIDE, MICROBATCHES, SAMPLES = 64, 5, 4
SET_BYTES = 2 * (WIDE * WIDE + WIDE) * 4
"""The gradients of two layers."""


def microbatches(**more: Any) -> Phase:
    names = [f"m{k}" for k in range(MICROBATCHES)]
    return phase(
        *(source("a", SAMPLES, name) for name in names), *(instance(name, 1, 2, "a") for name in names), **more
    )


def gone_back(order: Sequence[int]) -> tuple[list[int], int, list[Tensor]]:
    """Of microbatches that go forward and back in an order: bytes after each, the most at any time, and the sums."""
    torch.manual_seed(3)
    layers, samples = {k: nn.Linear(WIDE, WIDE) for k in (1, 2)}, torch.randn(MICROBATCHES * SAMPLES, WIDE)
    compute = SummingCompute(microbatches(), "a", layers, Options(), objective=classification(WIDE))
    given, labels = samples.split(SAMPLES), torch.zeros(SAMPLES, 8, dtype=torch.uint8)
    weights = [weight for layer in layers.values() for weight in layer.parameters()]
    after = []
    with LiveBytes([*weights, samples, labels]) as live:
        for k in order:
            compute.forward(k, [(given[k],)], [labels], 0)
            compute.backward(k, None)
            after.append(live.now)
    return after, live.most, [compute.gradients.take_sum(number) for number in layers]


def test_gradients_are_added_as_they_come_and_wait_only_for_their_turn() -> None:
    plan, reverse, mixed = range(MICROBATCHES), range(MICROBATCHES)[::-1], (0, 2, 1, 4, 3)
    in_order, _, expected = gone_back(plan)
    assert in_order == [SET_BYTES] * MICROBATCHES
    waiting, _, found = gone_back(reverse)
    assert waiting == [SET_BYTES * many for many in (1, 2, 3, 4, 1)]
    partly, _, others = gone_back(mixed)
    assert partly == [SET_BYTES * many for many in (1, 2, 1, 2, 1)]
    assert all(map(torch.equal, expected + expected, found + others))
    assert not all(map(torch.equal, expected, [torch.flip(each, [0]) for each in expected])), "not all zeros"


@pytest.mark.parametrize(("order", "calls"), [("1f1b", range(MICROBATCHES)), ("fifo", range(MICROBATCHES)[::-1])])
def test_the_gradients_of_microbatches_are_below_the_estimate_and_near_it(order: str, calls: Sequence[int]) -> None:
    """In turns, and in the worst order where none is kept."""
    rig = Rig([nn.Linear(WIDE, WIDE) for _ in range(2)], (WIDE,), options=Options())
    estimate = rig.evaluator(cluster(a=node(9))).peak_bytes(microbatches(order=order))["a"]
    _, most, _ = gone_back(calls)
    beside = 16 * SAMPLES  # labels and losses, which are not estimated
    assert 0.95 * estimate <= SET_BYTES + most <= estimate + beside  # the weights take as much as one set


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
