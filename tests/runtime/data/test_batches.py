"""Batches depend on the data's size, the batch size, the seed and the iteration, and on nothing else."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from palmette.runtime.data.batches import Batches, sample_seeds
from palmette.runtime.data.samples import SourceGroup, StepBatches
from tests.cost.small import instance, phase, source


@pytest.mark.parametrize(("samples", "batch"), [(10, 3), (10, 10), (7, 20), (1, 4), (100, 7)])
def test_each_pass_takes_every_sample_once(samples: int, batch: int) -> None:
    made = Batches(samples, batch, seed=4)
    row = np.concatenate([made.indices(k) for k in range(samples)])
    assert len(row) == samples * batch
    for begin in range(0, len(row) - samples + 1, samples):
        assert sorted(row[begin : begin + samples]) == list(range(samples))


def test_an_iteration_has_the_same_batch_whenever_it_is_asked_for() -> None:
    made = Batches(50, 8, seed=1)
    forwards = [made.indices(k).tolist() for k in range(30)]
    assert [Batches(50, 8, seed=1).indices(k).tolist() for k in reversed(range(30))] == forwards[::-1]
    assert Batches(50, 8, seed=1).indices(17).tolist() == forwards[17]


def test_another_seed_draws_other_batches() -> None:
    assert Batches(50, 8, seed=1).indices(0).tolist() != Batches(50, 8, seed=2).indices(0).tolist()


def test_passes_are_shuffled_anew() -> None:
    made = Batches(40, 40, seed=0)
    assert made.indices(0).tolist() != made.indices(1).tolist()


def test_sources_take_consecutive_slices_whoever_asks_first() -> None:
    """Sources of one node take at the same moment, from threads of their own."""
    tree = phase(*(source("a", k + 1, "all") for k in range(6)), instance("all", 1, 1, "a"))
    common, expected = StepBatches(tree, [SourceGroup(range(6), 10)], seed=5), Batches(10, tree.batch, seed=5)
    taken: dict[tuple[int, int], list[int]] = {}

    def take(which: int) -> None:
        for k in range(200):
            taken[k, which] = common.drawn(which, k).numbers.tolist()

    threads = [threading.Thread(target=take, args=(which,)) for which in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(200):
        whole = [value for which in range(6) for value in taken[k, which]]
        assert whole == expected.indices(k).tolist()


def test_kept_samples_come_back_to_the_same_branch_whatever_was_kept() -> None:
    branches = phase(
        source("a", 6, "x", delivery="once"),
        source("a", 10, "y", delivery="once"),
        instance("x", 1, 1, "b"),
        instance("y", 1, 1, "c"),
    )
    dealt = StepBatches(branches, [SourceGroup((0, 1), 160)], seed=3)
    as_drawn = Batches(160, 16, seed=3)
    where: dict[int, list[int]] = {}
    for k in range(40):
        both = [dealt.drawn(number, k) for number in (0, 1)]
        numbers = [number for each in both for number in each.numbers.tolist()]
        assert sorted(numbers) == sorted(as_drawn.indices(k).tolist())
        order = dealt.order(k)
        assert order is not None
        assert as_drawn.indices(k)[order].tolist() == numbers
        assert [p for each in both for p in each.passes.tolist()] == [k * 16 // 160] * 16
        for number in numbers[:6]:
            where.setdefault(number, []).append(k)
    usually = [number for number, turns in where.items() if len(turns) == 4]
    assert len(usually) > 40  # of 60 that a branch could have to itself


def test_one_branch_takes_a_batch_as_it_was_drawn() -> None:
    alone = phase(source("a", 16, "x", delivery="once"), instance("x", 1, 1, "b"))
    made = StepBatches(alone, [SourceGroup((0,), 160)], seed=3)
    assert made.order(5) is None
    assert made.drawn(0, 5).numbers.tolist() == Batches(160, 16, seed=3).indices(5).tolist()


def test_the_seed_of_a_sample_depends_on_the_sample_the_pass_and_the_run_alone() -> None:
    numbers, passes = np.array([1, 2, 1]), np.array([0, 0, 1])
    found = sample_seeds(numbers, passes, seed=7)
    assert len(set(found)) == 3
    assert found[::-1] == sample_seeds(numbers[::-1], passes[::-1], seed=7)
    assert set(found).isdisjoint(sample_seeds(numbers, passes, seed=8))
    assert all(0 <= each < 2**63 for each in found)
