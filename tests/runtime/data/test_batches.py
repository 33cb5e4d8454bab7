"""Batches depend on the data's size, the batch size, the seed and the iteration, and on nothing else."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from palmette.runtime.data.batches import Batches
from palmette.runtime.data.samples import CommonBatches
from tests.cost.small import instance, phase, source
from tests.runtime.rig import Toy


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
    part = Toy((2,), 3, many=10)
    common, expected = CommonBatches(tree, part, seed=5), Batches(10, tree.batch, seed=5)
    taken: dict[tuple[int, int], list[float]] = {}

    def take(which: int) -> None:
        for k in range(200):
            taken[k, which] = common.take(which, k)[0][:, 0].tolist()

    threads = [threading.Thread(target=take, args=(which,)) for which in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(200):
        whole = [value for which in range(6) for value in taken[k, which]]
        assert whole == part.inputs[expected.indices(k), 0].tolist()
