"""Collected curves: the grid, who owns which data, and that interrupted collections resume."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from palmette.errors import InputError
from palmette.measure.curves.branches import Trunk, train_branch, train_trunk
from palmette.measure.curves.collect import _origin, collect
from palmette.measure.curves.expected_time import sample_passes
from palmette.measure.curves.grid import CurveGrid
from palmette.measure.curves.node_sets import NodeSetData, labels_of, split_data
from palmette.measure.curves.trainer import CurveRecipe, new_trainer
from palmette.spec.curves import load_curves
from palmette.zoo.data import load_data

RECIPE = CurveRecipe(model="lenet5", data="digits", batch=32, lr=0.005)
SMALL = CurveGrid(seeds=1, k1=(1, 2), k2=(1,), f1=(0.5,), f2=(0.5,), last=2)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trunk() -> Trunk:
    return train_trunk(RECIPE, 0, SMALL.k1)


def test_a_grid_has_every_combination_once() -> None:
    grid = CurveGrid(seeds=2, k1=(5, 15, 30), k2=(5, 15), f1=(0.5, 0.75), f2=(0.25, 0.5), last=20)
    keys = [key for branch in grid.branches() for key in branch.every_key()]

    assert len(keys) == len(set(keys)) == 2 * 3 * 2 * 2 * (1 + 2 * 2)
    assert (1, ("gold", 0.0, 15), ("bronze", 0.75, 5), ("silver", 0.8125, 20)) in keys
    assert (0, ("gold", 0.0, 30), ("silver", 0.5, 20)) in keys


@pytest.mark.parametrize(
    "wrong", [{"seeds": 0}, {"k1": (0,)}, {"k2": (-1,)}, {"f1": (1.0,)}, {"f2": (-0.1,)}, {"last": 0}, {"k1": ()}]
)
def test_a_grid_of_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        replace(SMALL, **wrong)


@pytest.mark.parametrize("samples", [1, 7, 32, 33, 97])
def test_batches_of_an_epoch_are_of_one_size(samples: int) -> None:
    """A last batch of a single sample would move the weights as far as any other."""
    trainer, sizes = new_trainer(RECIPE, 0), []
    trainer.module.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    inputs, labels = torch.rand(samples, *trainer.example.shape[1:]), torch.arange(samples) % 10

    trainer.train(NodeSetData(inputs, labels, 10), epochs=1, seed=0)

    assert sum(sizes) == samples
    assert max(sizes) <= RECIPE.batch
    assert max(sizes) - min(sizes) <= 1


def test_sets_share_no_sample_and_have_more_classes_the_fewer_samples_they_have() -> None:
    data = load_data("digits", (3, 32, 32))
    found = split_data(data, labels_of(data.train), seed=4)

    assert [found[name].classes for name in ("gold", "silver", "bronze")] == [7, 9, 10]
    assert [len(set(shard.labels.tolist())) for shard in found.values()] == [7, 9, 10]
    sizes = [len(found[name].labels) for name in ("gold", "silver", "bronze")]
    assert sizes == sorted(sizes, reverse=True)
    rows = torch.cat([shard.inputs.flatten(1) for shard in found.values()])
    assert len(torch.unique(rows, dim=0)) == sum(sizes)


def test_too_little_data_cannot_be_shared_out() -> None:
    data = load_data("digits", (3, 32, 32))
    with pytest.raises(InputError, match="too few"):
        split_data(data, labels_of(data.train)[:30], seed=0)


def test_a_trunk_learns_and_keeps_itself_after_each_k1(trunk: Trunk) -> None:
    losses = (trunk.phase.start_loss, *trunk.phase.losses)

    assert sorted(trunk.saved) == [1, 2]
    assert losses[0] == pytest.approx(2.3, abs=0.1)
    assert losses[2] < losses[1] < losses[0]


def test_a_branch_prunes_hands_over_and_goes_on(trunk: Trunk) -> None:
    branch = next(branch for branch in SMALL.branches() if (branch.k1, branch.nodes) == (2, "silver"))
    once, twice = train_branch(RECIPE, trunk, branch, frozenset(branch.every_key()))

    assert [curve.key() for curve in (once, twice)] == branch.every_key()
    assert once.phases[0].losses == trunk.phase.losses
    assert twice.phases[1].losses == once.phases[1].losses[:1]
    assert [phase.nodes for phase in twice.phases] == ["gold", "silver", "bronze"]
    assert [phase.pruning for phase in twice.phases] == [0.0, 0.5, 0.75]
    for phase in twice.phases:
        assert phase.removed == pytest.approx(phase.pruning, abs=0.03)


def test_a_curve_does_not_depend_on_which_others_are_trained(trunk: Trunk) -> None:
    branch = next(SMALL.branches())
    together = train_branch(RECIPE, trunk, branch, frozenset(branch.every_key()))
    alone = train_branch(RECIPE, trunk, branch, frozenset(branch.every_key()[1:]))

    assert alone == together[1:]


def test_a_learner_goes_on_from_what_another_saved() -> None:
    data = load_data("digits", (3, 32, 32))
    shard = split_data(data, labels_of(data.train), seed=0)["bronze"]
    first, second = new_trainer(RECIPE, 0), new_trainer(RECIPE, 1)
    first.train(shard, 1, seed=5)
    second.load(first.state_bytes())

    assert first.train(shard, 1, seed=6).losses == second.train(shard, 1, seed=6).losses


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (replace(RECIPE, model="lenet6"), "did you mean lenet5"),
        (replace(RECIPE, data="digit"), "did you mean digits"),
        (replace(RECIPE, model="lenet5?classes=4"), "has 10 classes; the network distinguishes 4"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_a_file_is_created(
    tmp_path: Path, recipe: CurveRecipe, expected: str
) -> None:
    with pytest.raises(InputError, match=expected):
        collect(tmp_path / "curves.jsonl", recipe, SMALL, jobs=1)
    assert not list(tmp_path.iterdir())


def test_a_network_that_cannot_be_pruned_that_far_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be pruned further than"):
        collect(tmp_path / "curves.jsonl", RECIPE, replace(SMALL, f1=(0.99999,)), jobs=1)


def test_the_time_of_a_collection_counts_what_is_shared_once_and_smaller_networks_less() -> None:
    whole = {branch: frozenset(branch.every_key()) for branch in SMALL.branches()}
    samples = {"gold": 100, "silver": 30, "bronze": 10}
    second = (2 * 0.5 * (30 + 10)) * 2  # two epochs of half the network on silver, or bronze, after either k1
    third = (2 * 0.25 * (10 + 30)) * 2  # then two of a quarter of it on the other
    assert sample_passes(whole, samples) == pytest.approx(2 * 100 + second + third)
    left = {branch: keys for branch, keys in whole.items() if branch.k1 == 1 and branch.nodes == "silver"}
    assert sample_passes(left, samples) == pytest.approx(100 + 30 + 5)


@pytest.mark.slow
def test_a_collection_that_was_broken_off_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    seen: list[tuple[int, int]] = []
    expected: list[float] = []
    watched = {"on_progress": lambda *done: seen.append(done), "on_expected": expected.append}
    assert collect(whole, RECIPE, SMALL, jobs=2, **watched) == (8, 8)
    assert 0 < expected[0] < 60
    lines = whole.read_text().splitlines(keepends=True)
    broken.write_text("".join(lines[:4]) + lines[4][:30])

    assert collect(broken, RECIPE, SMALL, jobs=1) == (5, 8)
    assert sorted(broken.read_text().splitlines()) == sorted(whole.read_text().splitlines())
    assert collect(broken, RECIPE, SMALL, jobs=1) == (0, 8)
    assert len(load_curves(broken).curves) == 8
    assert seen[0] == (0, 8)
    assert seen[-1] == (8, 8)
    with pytest.raises(InputError, match=r"lr: 0.005: the file has other curves; expected 0.1"):
        collect(broken, replace(RECIPE, lr=0.1), SMALL, jobs=1)


@pytest.mark.slow
def test_a_collection_that_is_killed_leaves_no_worker_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from palmette.cli import main; main()", "curves", "collect", "--model", "lenet5"]
    parent = subprocess.Popen([*command, "--jobs", "1", "--quiet", "-o", str(tmp_path / "curves.jsonl")])
    try:
        started = time.monotonic()
        while not (workers := _children(parent.pid)) and time.monotonic() < started + 60:
            time.sleep(0.1)
        assert workers
        time.sleep(2)  # its imports
    finally:
        parent.kill()
        parent.wait()
    ended = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < ended:
        time.sleep(0.1)
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class AnyImage(torch.nn.Module):
    """A network that does not say which samples it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 10)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def test_a_network_that_does_not_say_is_told_the_shape_of_a_sample() -> None:
    recipe = replace(RECIPE, model=f"{__name__}:AnyImage")
    with pytest.raises(InputError, match="input_shape"):
        new_trainer(recipe, 0)

    assert new_trainer(replace(recipe, input_shape=(1, 8, 8)), 0).example.shape[1:] == (1, 8, 8)


def test_curves_of_samples_of_another_shape_are_not_added(tmp_path: Path) -> None:
    path = tmp_path / "curves.jsonl"
    wide = replace(RECIPE, input_shape=(1, 32, 32))
    path.write_text(_origin(wide).to_json())

    with pytest.raises(InputError, match=r"input_shape: \(1, 32, 32\): the file has other curves; expected None"):
        collect(path, RECIPE, SMALL, jobs=1)
