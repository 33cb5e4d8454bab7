"""Under ``step``, sources whose nodes name data draw from it: the result is that of one process with these samples."""

from __future__ import annotations

import pytest

from palmette.runtime.data.batches import Batches
from palmette.runtime.data.samples import SourceGroup, StepBatches
from tests.cost.small import instance, phase, source
from tests.runtime.owners import random_owners
from tests.runtime.rig import off
from tests.thorough import mostly_thorough

BRANCHES = phase(
    source("a", 3, "x"),
    source("b", 4, "y"),
    source("a", 2, "y"),
    instance("x", 1, 1, "a"),
    instance("y", 1, 1, "b"),
)


@pytest.mark.parametrize("seed", mostly_thorough(range(20), 10))
def test_any_tree_equals_one_process_with_the_same_samples(seed: int) -> None:
    rig, tree, known = random_owners(seed)
    losses, held = rig.trained(tree, known, iterations=8)
    expected_losses, expected = rig.alone_with(tree, 8)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    for weights in held.values():
        assert off(weights, expected) <= 1e-10


def test_the_sources_of_a_node_go_through_its_data_together() -> None:
    made = StepBatches(BRANCHES, [SourceGroup((0, 2), 20), SourceGroup((1,), 20)], seed=4)
    taken = [made.drawn(number, k).numbers for k in range(4) for number in (0, 2)]  # four batches of three and two
    assert sorted(number for each in taken for number in each.tolist()) == list(range(20))


def test_a_node_draws_the_same_whatever_else_a_plan_takes() -> None:
    alone = phase(source("a", 5, "z"), instance("z", 1, 1, "b"))
    branches, whole = (
        StepBatches(BRANCHES, [SourceGroup((0, 2), 20), SourceGroup((1,), 9)], seed=4),
        StepBatches(alone, [SourceGroup((0,), 20)], seed=4),
    )
    for k in range(6):
        split = [branches.drawn(number, k).numbers.tolist() for number in (0, 2)]
        assert split[0] + split[1] == whole.drawn(0, k).numbers.tolist()


def test_two_owners_of_the_same_data_do_not_draw_the_same_samples() -> None:
    rows = [Batches(50, 5, seed=2, row=row).indices(0).tolist() for row in (0, 1, 2)]
    assert len({tuple(row) for row in rows}) == 3
    assert rows[0] == Batches(50, 5, seed=2).indices(0).tolist()
