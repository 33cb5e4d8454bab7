"""``epoch`` is federated averaging: the same weights as a plain loop that averages replicas, for any forest."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import nn

from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import exchanges_weights
from palmette.runtime.data.epoch_length import EpochData, phase_shards, tree_steps
from palmette.runtime.options import Options
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from tests.cost.random_trees import random_cluster, random_phase
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.rig import Rig, off
from tests.runtime.trees import DATA, OTHER_DATA, FedAvg, Forest
from tests.runtime.world import lines
from tests.thorough import mostly_thorough

ELEMENTWISE = 1e-10
Optimizer = Literal["sgd", "momentum", "adam"]


def rig(*, norm: bool = False, optimizer: Optimizer = "sgd") -> Rig:
    torch.manual_seed(3)
    middle: list[nn.Module] = [nn.Linear(6, 6), nn.BatchNorm1d(6) if norm else nn.LayerNorm(6, eps=0.1), nn.Tanh()]
    layers = [nn.Sequential(nn.Linear(5, 6), nn.Tanh()), nn.Sequential(*middle), nn.Softplus(), nn.Linear(6, 3)]
    return Rig(layers, (5,), options=Options(optimizer=optimizer, lr=0.05, dtype="float64", seed=2))


def world(**samples: int | None) -> Cluster:
    names = list(samples)
    links = [link(a, b, 1e9) for k, a in enumerate(names) for b in names[k + 1 :]]
    return cluster(*links, **{name: node(many) for name, many in samples.items()})


def two_devices(**more: Any) -> Phase:
    return phase(source("a", 6, "A"), source("b", 4, "B"), instance("A", 1, 4, "a"), instance("B", 1, 4, "b"), **more)


def epoch_inputs(forest: Forest) -> tuple[Evaluator, EpochData]:
    job = forest.job()
    return job.evaluator, job.epoch_data


def assert_equal(forest: Forest, epochs: int = 2, iterations: int | None = None) -> None:
    steps = tree_steps(forest.phase, *epoch_inputs(forest))
    twin = FedAvg(forest, steps)
    expected = twin.epochs(epochs, iterations=iterations)
    outcome, found = forest.trained(epochs=None if iterations else epochs, iterations=iterations)
    assert outcome.ended == "done"
    assert off(found, expected) <= ELEMENTWISE
    noted = [line for line in lines(forest.folder / "metrics.jsonl") if "accuracy" not in line]
    assert [line["loss"] for line in noted] == pytest.approx(twin.losses, rel=1e-9)
    assert [line["iteration"] for line in noted] == list(range(len(twin.losses)))


def test_unequal_shards_count_by_their_samples(tmp_path: Path) -> None:
    forest = Forest(rig(), two_devices(sync="epoch"), world(a=40, b=14), tmp_path)
    assert tree_steps(forest.phase, *epoch_inputs(forest)) == [7, 4]  # 40 samples in sixes, 14 in fours
    assert_equal(forest)


def test_a_server_need_not_host_an_instance(tmp_path: Path) -> None:
    assert_equal(Forest(rig(), two_devices(sync="epoch", server="c"), world(a=30, b=24, c=None), tmp_path))


def test_replicas_of_different_trees_on_one_node_have_weights_of_their_own(tmp_path: Path) -> None:
    both = phase(
        source("a", 6, "A"),
        source("b", 4, "B"),
        source("b", 2, "C"),
        instance("A", 1, 4, "s"),
        instance("B", 1, 2, "b", "B2"),
        instance("B2", 3, 4, "s"),
        instance("C", 1, 4, "s", cpu_share=0.5),
        sync="epoch",
        server="s",
    )
    assert_equal(Forest(rig(), both, world(a=30, b=24, s=None), tmp_path))


def test_branches_of_one_tree_that_hold_the_same_layers_agree_too(tmp_path: Path) -> None:
    tree = phase(
        source("a", 6, "A"),
        source("b", 3, "B"),
        source("a", 2, "C"),
        instance("A", 1, 2, "a", "R"),
        instance("B", 1, 2, "b", "R"),
        instance("C", 1, 2, "b", "R"),
        instance("R", 3, 4, "a"),
        sync="epoch",
    )
    assert exchanges_weights(tree)
    assert_equal(Forest(rig(), tree, world(a=36, b=18), tmp_path))


def test_local_epochs_go_over_the_shard_again(tmp_path: Path) -> None:
    forest = Forest(rig(), two_devices(sync="epoch", local_epochs=2), world(a=30, b=24), tmp_path)
    assert tree_steps(forest.phase, *epoch_inputs(forest)) == [10, 12]
    assert_equal(forest)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_optimizers_begin_anew_after_an_exchange(optimizer: Optimizer, tmp_path: Path) -> None:
    assert_equal(Forest(rig(optimizer=optimizer), two_devices(sync="epoch"), world(a=30, b=24), tmp_path), epochs=3)


MORE = {"clip_norm": 0.05, "accumulate": 2, "schedule": "cosine", "warmup": 3, "weight_decay": 0.1}


def test_schedules_go_on_and_accumulation_begins_anew_after_an_exchange(tmp_path: Path) -> None:
    """The shorter tree has the learning rate of the longer one again from the exchange on."""
    made = rig(optimizer="adam")
    made.options = replace(made.options, **MORE)  # type: ignore[arg-type]
    assert_equal(Forest(made, two_devices(sync="epoch"), world(a=30, b=10), tmp_path), epochs=3)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_cut_tree_clips_by_the_norm_of_all_its_gradients(tmp_path: Path, accumulate: int) -> None:
    split = phase(
        source("a", 6, "A"),
        source("b", 5, "B"),
        instance("A", 1, 1, "a", "A2"),
        instance("A2", 2, 3, "c", "A3"),
        instance("A3", 4, 4, "a"),
        instance("B", 1, 2, "b", "B2"),
        instance("B2", 3, 4, "c"),
        sync="epoch",
    )
    made = rig(optimizer="momentum")
    made.options = replace(made.options, clip_norm=0.05, accumulate=accumulate)
    assert_equal(Forest(made, split, world(a=30, b=25, c=None), tmp_path))


def test_what_batch_norm_keeps_is_averaged(tmp_path: Path) -> None:
    split = phase(
        source("a", 6, "A"),
        source("b", 5, "B"),
        instance("A", 1, 4, "a"),
        instance("B", 1, 1, "b", "B2"),
        instance("B2", 2, 4, "c"),
        sync="epoch",
    )
    assert_equal(Forest(rig(norm=True), split, world(a=30, b=24, c=None), tmp_path))


def test_frozen_weights_stay(tmp_path: Path) -> None:
    made = rig()
    made.options = replace(made.options, freeze=("l1.0.weight", "l4.bias"))
    forest = Forest(made, two_devices(sync="epoch", server="c"), world(a=30, b=24, c=None), tmp_path)
    assert_equal(forest)


def naming(known: Cluster, **data: str) -> Cluster:
    """The cluster whose nodes have data of their own."""
    fields = known.model_dump()
    for name, each in data.items():
        fields["nodes"][name]["source"]["data"] = each
    return validated(Cluster, fields)


def test_nodes_with_data_of_their_own_train_on_that(tmp_path: Path) -> None:
    known = naming(world(a=30, b=24), a=DATA, b=OTHER_DATA)
    forest = Forest(rig(), two_devices(sync="epoch"), known, tmp_path)
    assert tree_steps(forest.phase, *epoch_inputs(forest)) == [
        9,
        5,
    ]  # all 54 samples of one in sixes, all 18 others in fours
    assert_equal(forest)


def test_an_epoch_takes_the_same_fraction_of_a_shard_as_the_plan_of_the_described_one(tmp_path: Path) -> None:
    some = phase(
        source("a", 3, "A", epoch_samples=1000),
        source("b", 4, "B"),
        instance("A", 1, 4, "a"),
        instance("B", 1, 4, "b"),
        sync="epoch",
    )
    forest = Forest(rig(), some, world(a=2000, b=1000), tmp_path)
    assert tree_steps(some, *epoch_inputs(forest)) == [6, 5]  # half of 36 samples in threes, 18 in fours
    assert_equal(forest, epochs=3)


def test_a_run_that_ends_within_an_epoch_ends_with_an_exchange(tmp_path: Path) -> None:
    forest = Forest(rig(), two_devices(sync="epoch"), world(a=40, b=14), tmp_path)
    assert_equal(forest, epochs=2, iterations=9)  # seven, and two more of each tree


def test_a_lone_tree_has_nobody_to_agree_with_and_keeps_its_optimizer(tmp_path: Path) -> None:
    chain = phase(source("a", 5, "A"), instance("A", 1, 2, "a", "B"), instance("B", 3, 4, "b"), sync="epoch")
    assert not exchanges_weights(chain)
    assert_equal(Forest(rig(optimizer="momentum"), chain, world(a=30, b=None), tmp_path))


def random_forest(seed: int, folder: Path) -> Forest:
    """Up to three trees on up to five nodes, none of whose sources would own nothing."""
    draw = random.Random(seed)
    known = random_cluster(draw, [f"n{k}" for k in range(draw.randint(1, 5))])
    fields = random_phase(draw, known, 4).model_dump()
    for each in fields["instances"]:
        each["codec"] = "none"
    fields |= {"sync": "epoch", "local_epochs": draw.choice([1, 1, 2])}
    fields["server"] = draw.choice([None, *known.nodes])
    forest = Forest(rig(optimizer=draw.choice(["sgd", "momentum"])), validated(Phase, fields), known, folder)
    enough = all(share.size(54) for share in phase_shards(forest.phase, *epoch_inputs(forest)))
    return forest if enough else random_forest(seed + 1000, folder)


@pytest.mark.parametrize("seed", range(8))
def test_any_forest_equals_plain_federated_averaging(seed: int, tmp_path: Path) -> None:
    assert_equal(random_forest(seed, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(10), 1))
def test_any_forest_equals_plain_federated_averaging_many_times(block: int, tmp_path: Path) -> None:
    for seed in range(100 + 20 * block, 120 + 20 * block):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert_equal(random_forest(seed, folder))


def test_one_step_an_epoch_is_one_step_of_plain_training(tmp_path: Path) -> None:
    branches = [
        source("a", 20, "A"),
        source("b", 34, "B"),
        instance("A", 1, 2, "a", "R"),
        instance("B", 1, 2, "b", "R"),
        instance("R", 3, 4, "a"),
    ]
    made = rig()
    forest = Forest(made, phase(*branches, sync="epoch"), world(a=20, b=34), tmp_path)
    _, found = forest.trained(epochs=1)
    whole = nn.Sequential(*made.fresh())
    part = forest.job().data.train
    inputs, labels = part.batch(range(54))
    nn.functional.cross_entropy(whole(inputs), labels).backward()
    expected = {name: w.detach() - 0.05 * w.grad for name, w in whole.named_parameters()}  # type: ignore[operator]
    named = dict(zip([n for m in made.fresh() for n, _ in m.named_parameters()], expected.values(), strict=True))
    assert off({name: found[name] for name in named}, named) <= ELEMENTWISE


def test_a_stopped_run_goes_on_from_the_last_epoch_to_the_same_weights(tmp_path: Path) -> None:
    made = [Forest(rig(norm=True), two_devices(sync="epoch"), world(a=40, b=14), tmp_path / name) for name in "xy"]
    for each in made:
        each.folder.mkdir()
    _, expected = made[0].trained(epochs=4)

    def stop(training: Any, update: Any) -> None:
        if update.iteration == 10 and update.evaluation is None:
            training.stop()

    made[1].watch = stop
    outcome, halfway = made[1].trained(epochs=4)
    assert (outcome.ended, outcome.iterations) == ("stopped", 7)
    assert off(halfway, expected) > 0
    made[1].watch = lambda *_: None
    outcome, found = made[1].trained(resume=True, epochs=4)
    assert outcome.ended == "done"
    assert off(found, expected) == 0
    assert _noted(made[1]) == _noted(made[0])


def _noted(forest: Forest) -> list[tuple[Any, ...]]:
    found = lines(forest.folder / "metrics.jsonl")
    return [(line["iteration"], line["epoch"], line["loss"], line.get("accuracy")) for line in found]


def test_the_log_of_an_epoch_has_its_steps_its_exchange_and_a_judgement(tmp_path: Path) -> None:
    forest = Forest(rig(), two_devices(sync="epoch"), world(a=40, b=14), tmp_path)
    outcome, _ = forest.trained(epochs=2)
    noted = lines(tmp_path / "metrics.jsonl")
    steps = [line for line in noted if "accuracy" not in line]
    assert [line["samples"] for line in steps] == [10, 10, 10, 10, 6, 6, 6] * 2
    assert [line["epoch"] for line in noted] == [0] * 8 + [1] * 8
    trace = lines(tmp_path / "trace.jsonl")
    assert sum(line["op"] == "average" for line in trace) == 2
    assert {line["iteration"] for line in trace if line["op"] == "average"} == {6, 13}
    found = outcome.measured[0]
    assert found.iteration_s is not None
    assert found.epoch_s is not None
    assert found.epoch_s > 7 * found.iteration_s / 2
