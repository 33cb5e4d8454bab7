"""Batch norm whose parts share their statistics equals one process, however the network calls it."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from palmette.errors import RunError
from palmette.runtime.options import Options
from palmette.runtime.worker.batch_norm import SharedNorms, alone
from palmette.runtime.worker.commands import Execute
from palmette.runtime.worker.coroutine import Coroutine
from palmette.spec.plan import Phase
from tests.cost.random_trees import random_cluster, random_phase
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.rig import Rig, off

ELEMENTWISE = 1e-9


class Residual(nn.Module):
    """Two branches with a batch norm each, and a third after them; one is called as a function."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(channels, channels, 3, padding=1), nn.Conv2d(channels, channels, 1)
        self.norm, self.free = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels, affine=False)
        self.gain = nn.Parameter(torch.ones(channels))

    def forward(self, values: Tensor) -> Tensor:
        left, right = self.norm(self.left(values)), self.free(self.right(values))
        joined = torch.relu(left + right)
        return nn.functional.batch_norm(joined, None, None, self.gain, training=True)


class Residuals(Rig):
    """A rig whose second layer has three batch norms."""

    norms = {2: [3, 3, 3], 3: [6]}


def residuals(**more: object) -> Rig:
    torch.manual_seed(5)
    layers: list[nn.Module] = [
        nn.Conv2d(2, 3, 3, padding=1),
        Residual(3),
        nn.Sequential(nn.Flatten(), nn.Linear(48, 6), nn.BatchNorm1d(6, track_running_stats=False), nn.ReLU()),
        nn.Linear(6, 3),
    ]
    options = Options(dtype="float64", optimizer="momentum", lr=0.02)
    return Residuals(layers, (2, 4, 4), options=replace(options, **more))  # type: ignore[arg-type]


def trees(many: int) -> list[Phase]:
    draw, found = random.Random(7), []
    while len(found) < many:
        known = random_cluster(draw, ["a", "b", "c"])
        fields = random_phase(draw, known, 4).model_dump()
        for each in fields["instances"]:
            each["codec"] = "none"
        fields |= {"batch_norm": "whole", "meet": draw.choice([None, "a", "b", "c"])}
        made = Phase.model_validate(fields)
        if len(made.instances) > 1 and made.batch > 2:
            found.append(made)
    return found


THREE = cluster(link("a", "b"), link("b", "c"), a=node(99), b=node(99), c=node(99))


@pytest.mark.parametrize("tree", trees(8), ids=lambda tree: f"{len(tree.instances)} instances")
def test_batch_norm_that_the_module_has_frozen_equals_one_process(tree: Phase) -> None:
    rig = residuals()
    for layer in rig.layers[:2]:
        layer.requires_grad_(requires_grad=False)
    assert_equal(rig, tree)


@pytest.mark.parametrize("tree", trees(12), ids=lambda tree: f"{len(tree.instances)} instances")
def test_any_tree_equals_one_process(tree: Phase) -> None:
    assert_equal(residuals(), tree)


def assert_equal(rig: Rig, tree: Phase) -> None:
    losses, held = rig.trained(tree, THREE, iterations=8)
    expected_losses, expected = rig.alone(tree.batch, iterations=8)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    for weights in held.values():
        assert off(weights, expected) <= ELEMENTWISE


PAIR = phase(
    source("a", 1, "I"), source("b", 3, "J"), instance("I", 1, 4, "a"), instance("J", 1, 4, "b"), batch_norm="whole"
)


def test_a_part_of_one_sample_is_normalised_with_all_others() -> None:
    assert_equal(residuals(), PAIR)


def test_parts_of_one_sample_by_themselves_are_refused_by_batch_norm() -> None:
    with pytest.raises(RunError, match="more than 1 value per channel"):
        residuals().trained(PAIR.model_copy(update={"batch_norm": "parts"}), THREE, iterations=1)


@pytest.mark.parametrize("frozen", [("l1.weight", "l1.bias"), ("l2.gain", "l2.norm.weight"), ("l4.weight",)])
def test_frozen_weights_beside_shared_statistics(frozen: tuple[str, ...]) -> None:
    # The norm whose weight alone is frozen keeps learning its statistics: its bias is trained.
    assert_equal(residuals(freeze=frozen), PAIR)


def test_a_batch_norm_with_frozen_weights_uses_the_statistics_that_it_has() -> None:
    rig = residuals(freeze=("l2.norm.weight", "l2.norm.bias"))
    losses, held = rig.trained(PAIR, THREE, iterations=4)
    assert all(map(math.isfinite, losses))
    for weights in held.values():
        assert torch.equal(weights["l2.norm.running_mean"], torch.zeros(3, dtype=torch.float64))


def test_alone_it_does_what_torch_does() -> None:
    torch.manual_seed(0)
    for kind, shape in ((nn.BatchNorm1d, (5, 4)), (nn.BatchNorm1d, (5, 4, 3)), (nn.BatchNorm3d, (2, 4, 2, 3, 2))):
        mine, theirs = kind(4).double(), kind(4).double()
        values = torch.randn(shape, dtype=torch.float64)
        a, b = values.clone().requires_grad_(), values.clone().requires_grad_()
        with SharedNorms(1, alone):
            made = mine(a)
        expected = theirs(b)
        upstream = torch.randn_like(expected)
        made.backward(upstream)
        expected.backward(upstream)
        pairs = [(made, expected), (a.grad, b.grad), (mine.weight.grad, theirs.weight.grad)]
        pairs += [(mine.bias.grad, theirs.bias.grad), *zip(mine.buffers(), theirs.buffers(), strict=True)]
        for left, right in pairs:
            torch.testing.assert_close(left, right, rtol=1e-10, atol=1e-12)


def test_in_evaluation_nothing_is_asked() -> None:
    def never(*_: object) -> Tensor:
        raise AssertionError

    norm = nn.BatchNorm2d(2).eval()
    values = torch.randn(3, 2, 4, 4)
    with SharedNorms(1, never):
        made = norm(values)
    torch.testing.assert_close(made, norm(values))


def test_a_function_stops_where_it_asks_and_goes_on_with_the_answer() -> None:
    def work() -> float:
        return float(going.ask("a", torch.ones(1)) + going.ask("c", torch.zeros(1)))

    going = Coroutine(work)
    assert torch.equal(going.until("a"), torch.ones(1))
    assert going.until("b", torch.tensor([5.0])) is None
    assert torch.equal(going.until("c"), torch.zeros(1))
    assert going.until(None, torch.tensor([2.0])) == 7.0


def test_what_goes_wrong_in_it_is_raised_where_it_is_waited_for() -> None:
    def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Coroutine(work).until("a")


def test_a_batch_norm_that_the_profile_does_not_know_is_told() -> None:
    going = Coroutine(lambda: going.ask((2, 0), torch.ones(1)))
    with pytest.raises(RunError, match="not in the profile"):
        going.until(None)


def test_a_worker_that_stops_in_the_midst_of_a_pass_leaves_no_thread() -> None:
    rig = residuals()
    with rig.crew(PAIR, THREE) as (crew, _):
        crew.send("a", Execute(0, 0, 0))  # b never starts, and so a never gets its totals
        assert crew.receive(0.3) is None
