"""Nothing changes the result: with ``step``, every tree leaves the weights of one process with the same batches."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import nn

from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Order, Phase
from tests.cost.random_trees import random_cluster, random_phase
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.rig import Rig, Toy, off, random_layers, relatively_off
from tests.thorough import mostly_thorough

ELEMENTWISE = 1e-10
RELATIVE = 1e-4
OPTIMIZERS: list[Literal["sgd", "momentum", "adam"]] = ["sgd", "momentum", "adam"]


def random_rig(seed: int) -> tuple[Rig, Phase, Cluster]:
    """Up to five nodes and eight layers; some layers frozen, some without weights, some with dropout."""
    draw = random.Random(seed)
    many = draw.randint(1, 8)
    known = random_cluster(draw, [f"n{k}" for k in range(draw.randint(1, 5))])
    fields = random_phase(draw, known, many).model_dump()
    for each in fields["instances"]:
        each["codec"] = "none"
    optimizer = OPTIMIZERS[seed % 3]
    rig = Rig(
        random_layers(draw, many),
        (5,),
        options=Options(
            optimizer=optimizer, lr=0.01 if optimizer == "adam" else 0.05, seed=draw.randint(0, 9), dtype="float64"
        ),
    )
    names = [name for layer in rig.fresh() for name, _ in layer.named_parameters()]
    frozen = tuple(name for name in names if draw.random() < 0.4) if draw.random() < 0.3 else ()
    rig.options = replace(rig.options, freeze=frozen)
    fields["meet"] = draw.choice([None, *known.nodes])
    return rig, validated(Phase, fields), known


def assert_equal(rig: Rig, tree: Phase, known: Cluster, iterations: int = 20) -> None:
    losses, held = rig.trained(tree, known, iterations)
    expected_losses, expected = rig.alone(tree.batch, iterations)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    for node_name, weights in held.items():
        assert off(weights, expected) <= ELEMENTWISE, node_name


@pytest.mark.parametrize("seed", mostly_thorough(range(25), 15))
def test_any_tree_equals_one_process(seed: int) -> None:
    assert_equal(*random_rig(seed))


@pytest.mark.parametrize("seed", mostly_thorough(range(300, 315), 8))
def test_any_tree_of_a_network_with_frozen_weights_equals_one_process(seed: int) -> None:
    rig, tree, known = random_rig(seed)
    draw = random.Random(seed)
    for weight in [weight for layer in rig.layers for weight in layer.parameters()]:
        weight.requires_grad_(draw.random() < 0.5)
    next(rig.layers[-1].parameters()).requires_grad_(True)
    rig.options = replace(rig.options, freeze=())
    assert_equal(rig, tree, known)
    _, held = rig.trained(tree, known, iterations=3)
    before = {name: weight for layer in rig.fresh() for name, weight in layer.named_parameters()}
    for found in held.values():
        frozen = [name for name in found if name in before and not before[name].requires_grad]
        assert all(torch.equal(found[name], before[name]) for name in frozen)


TURNS: list[Order] = ["1f1b", "zero-bubble"]


@pytest.mark.parametrize("order", TURNS)
@pytest.mark.parametrize("seed", mostly_thorough(range(8), 4))
def test_any_tree_in_turns_equals_one_process(seed: int, order: Order) -> None:
    rig, tree, known = random_rig(seed)
    assert_equal(rig, tree.model_copy(update={"order": order}), known, 8)


def pipeline(order: Order, **more: object) -> Phase:
    """A chain over three nodes, two layers on the second, for each of four microbatches."""
    parts = []
    for m in range(4):
        parts += [source("a", 2, f"a{m}"), instance(f"a{m}", 1, 1, "a", f"b{m}"), instance(f"b{m}", 2, 3, "b", f"c{m}")]
        parts.append(instance(f"c{m}", 4, 4, "c", **more))
    return phase(*parts, order=order)


@pytest.mark.parametrize("order", TURNS)
def test_a_pipeline_of_microbatches_in_turns_equals_one_process(order: Order) -> None:
    rig = Rig(random_layers(random.Random(3), 4), (5,), options=Options(lr=0.05, dtype="float64"))
    assert_equal(rig, pipeline(order), three())


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(20), 2))
def test_any_tree_equals_one_process_many_times(block: int) -> None:
    """For a few iterations: so that optimizers have a state, and a tree that is wrong is seen in the first."""
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        assert_equal(*random_rig(seed), iterations=4)


@pytest.mark.parametrize("seed", range(3))
def test_single_precision_stays_near_one_process(seed: int) -> None:
    rig, tree, known = random_rig(200 + seed)
    rig.options = replace(rig.options, dtype="float32")
    losses, held = rig.trained(tree, known)
    expected_losses, expected = rig.alone(tree.batch)
    assert losses == pytest.approx(expected_losses, rel=1e-4)
    for weights in held.values():
        assert relatively_off(weights, expected) <= RELATIVE


def three() -> Cluster:
    links = [link("a", "b"), link("b", "c")]
    return cluster(*links, a=node(100), b=node(100), c=node(100))


def images(*, batch_norm: bool = False) -> Rig:
    """Convolutions and pooling on small images."""
    torch.manual_seed(3)
    middle = nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6) if batch_norm else nn.Identity(), nn.ReLU())
    return Rig(
        [
            nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Tanh()),
            nn.MaxPool2d(2),
            nn.Sequential(middle, nn.Dropout2d(0.2)),
            nn.Sequential(nn.Flatten(), nn.Linear(54, 8), nn.BatchNorm1d(8) if batch_norm else nn.Identity()),
            nn.Linear(8, 3),
        ],
        (2, 6, 6),
        options=Options(dtype="float64", optimizer="momentum", lr=0.02),
    )


HIERARCHY = phase(
    source("a", 5, "S"),
    source("a", 4, "L"),
    source("b", 3, "O1"),
    source("c", 2, "O1"),
    instance("S", 1, 2, "a", "O2"),
    instance("L", 1, 4, "b", "O3"),
    instance("O1", 1, 2, "c", "O2"),
    instance("O2", 3, 4, "c", "O3"),
    instance("O3", 5, 5, "c"),
)
BACK_AND_FORTH = phase(
    source("a", 6, "i1"),
    instance("i1", 1, 1, "a", "i2"),
    instance("i2", 2, 2, "b", "i3"),
    instance("i3", 3, 3, "a", "i4"),
    instance("i4", 4, 4, "b", "i5"),
    instance("i5", 5, 5, "a"),
)
CROWDED = phase(
    *(source("a", k + 2, f"w{k}") for k in range(4)),
    *(instance(f"w{k}", 1, 5, "ab"[k % 2], cpu_share=0.5) for k in range(4)),
)
TREES = {"hierarchy": HIERARCHY, "back and forth": BACK_AND_FORTH, "replicas on one node": CROWDED}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_convolutions_equal_one_process(tree: Phase) -> None:
    assert_equal(images(), tree, three())


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_batch_norm_equals_one_process_with_the_same_groups(tree: Phase) -> None:
    rig = images(batch_norm=True)
    losses, held = rig.trained(tree, three())
    expected_losses, expected = rig.grouped(tree)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    trained = {name for layer in rig.fresh() for name, _ in layer.named_parameters()}
    for weights in held.values():
        mine = {name: value for name, value in weights.items() if name in trained}
        assert off(mine, expected) <= ELEMENTWISE
    first = {n: next(i.node for i in tree.instances if i.layers[0] <= n <= i.layers[1]) for n in range(1, 6)}
    for number, at in first.items():
        mine = {name: value for name, value in held[at].items() if name.startswith(f"l{number}.")}
        assert off(mine, expected) <= ELEMENTWISE


@pytest.mark.parametrize("meet", [None, "b"])
@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_batch_norm_over_the_whole_batch_equals_one_process(tree: Phase, meet: str | None) -> None:
    rig = images(batch_norm=True)
    assert_equal(rig, tree.model_copy(update={"batch_norm": "whole", "meet": meet}), three())


def test_batch_norm_over_one_group_is_that_of_the_whole_batch() -> None:
    rig = images(batch_norm=True)
    _, held = rig.trained(BACK_AND_FORTH, three())
    _, expected = rig.alone(BACK_AND_FORTH.batch)
    assert all(off(weights, expected) <= ELEMENTWISE for weights in held.values())


def test_two_trees_with_the_same_seed_see_the_same_batches() -> None:
    rig = images()
    smaller = phase(source("a", 14, "all"), instance("all", 1, 5, "c"))
    losses, _ = rig.trained(HIERARCHY, three())
    others, _ = rig.trained(smaller, three())
    assert losses == pytest.approx(others, rel=1e-9)


def test_whole_numbers_as_input_equal_one_process() -> None:
    torch.manual_seed(0)
    words = [nn.Embedding(7, 6), nn.Sequential(nn.Flatten(), nn.Linear(24, 5), nn.Tanh()), nn.Linear(5, 3)]
    options = Options(dtype="float64", optimizer="adam")
    rig = Words([nn.Sequential(each) for each in words], (4,), options=options, inputs=torch.long)
    tree = phase(
        source("a", 3, "far"),
        source("b", 4, "near"),
        instance("far", 1, 2, "c", "end"),
        instance("near", 1, 2, "b", "end"),
        instance("end", 3, 3, "c"),
    )
    assert_equal(rig, tree, three())


class Words(Rig):
    """Samples of four words each."""

    @property
    def data(self) -> Toy:
        made = Toy(self.shape, self.classes)
        made.inputs = (made.inputs.abs() * 3).long().clamp(max=6)
        return made

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(4,), (4, 6), (5,), (3,)]


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.uint8])
def test_data_in_other_numbers_than_the_network_takes(kind: torch.dtype) -> None:
    rig = images()
    rig.data.inputs = (rig.data.inputs.abs() * 50).clamp(max=255).to(kind)
    losses, held = rig.trained(HIERARCHY, three(), iterations=3)
    rig.data.inputs = rig.data.inputs.double()
    expected_losses, expected = rig.alone(HIERARCHY.batch, iterations=3)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    assert all(off(weights, expected) <= ELEMENTWISE for weights in held.values())


def test_frozen_batch_norm_stays_as_it_is() -> None:
    rig = images(batch_norm=True)
    names = [name for name, _ in nn.Sequential(*rig.fresh()).named_parameters() if name.startswith("2.")]
    rig.options = replace(rig.options, freeze=tuple(name.removeprefix("2.") for name in names))
    before = {name: value for layer in rig.fresh() for name, value in layer.state_dict().items()}
    _, held = rig.trained(HIERARCHY, three(), iterations=3)
    frozen = {name: value for name, value in held["c"].items() if name.startswith("l3.")}
    assert "l3.0.1.running_mean" in frozen
    assert off(frozen, before) == 0
    assert off({name: value for name, value in held["c"].items() if name.startswith("l5.")}, before) > 0


def test_a_layer_that_passes_no_gradient_on_trains_what_comes_after() -> None:
    class Wall(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return values.detach()

    torch.manual_seed(1)
    rig = Rig([nn.Linear(5, 4), Wall(), nn.Linear(4, 3)], (5,))
    tree = phase(
        source("a", 6, "1"), instance("1", 1, 1, "a", "2"), instance("2", 2, 2, "b", "3"), instance("3", 3, 3, "c")
    )
    assert_equal(rig, tree, three())
