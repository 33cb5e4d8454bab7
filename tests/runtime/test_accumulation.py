"""Gradients that accumulate are exchanged once an update, and the weights equal those of one process."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.cost.steps import Kind
from palmette.runtime.options import Options
from palmette.spec.plan import Phase
from tests.cost.small import instance, phase, source
from tests.runtime.rig import Rig, off
from tests.runtime.test_divisors import THREE_ROOTS, TWO_ROOTS, padded
from tests.runtime.test_equality import CROWDED, HIERARCHY, assert_equal, images, three

TREES = {"hierarchy": HIERARCHY, "two roots": TWO_ROOTS, "three roots": THREE_ROOTS, "crowded": CROWDED}
APART = phase(
    *(source(at, 3, at) for at in "ab"), source("c", 2, "a"), *(instance(at, 1, 5, at) for at in "ab"), meet="c"
)


def accumulating(**options: Any) -> Rig:
    rig = images()
    rig.options = Options(**{"dtype": "float64", "lr": 0.1, "accumulate": 3, **options})
    return rig


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_accumulated_gradients_equal_one_process(tree: Phase) -> None:
    assert_equal(accumulating(optimizer="adam", lr=0.01, schedule="cosine", warmup=2), tree, three(), iterations=8)


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
def test_so_do_clipped_ones_by_the_norm_of_their_mean(tree: Phase) -> None:
    assert_equal(accumulating(clip_norm=0.02), tree, three(), iterations=7)


def kinds(rig: Rig, tree: Phase) -> list[set[Kind]]:
    return [
        {operation.what for program in part.programs.values() for operation in program.operations}
        for part in rig.parts(tree, three())
    ]


def test_an_iteration_without_an_update_exchanges_nothing() -> None:
    always, update = kinds(accumulating(clip_norm=1.0), TWO_ROOTS)
    assert always == {Kind.FORWARD, Kind.BACKWARD, Kind.OUTPUT, Kind.GRADIENT}
    assert update == {
        Kind.PUSH,
        Kind.AVERAGE,
        Kind.PULL,
        Kind.SQUARES,
        Kind.NORM,
        Kind.TOTAL_NORM,
        Kind.UPDATE,
    }


def test_where_nothing_is_exchanged_updates_are_not_apart() -> None:
    chain = phase(source("a", 4, "1"), instance("1", 1, 3, "a", "2"), instance("2", 4, 5, "b"))
    assert len(kinds(accumulating(), chain)) == 1
    assert len(kinds(accumulating(clip_norm=1.0), chain)) == 2


@pytest.mark.parametrize("exchange_after", [[0], [1], [0, 1, 3, 5]])
def test_an_exchange_before_a_checkpoint_changes_nothing(exchange_after: list[int]) -> None:
    """It shares what has accumulated so far, and the rest follows before the update."""
    rig = accumulating(optimizer="adam", lr=0.01, clip_norm=0.05, schedule="linear")
    losses, held = rig.trained(THREE_ROOTS, three(), 7, exchange_after)
    expected_losses, expected = rig.alone(THREE_ROOTS.batch, 7)
    assert losses == pytest.approx(expected_losses, rel=1e-9)
    assert all(off(weights, expected) <= 1e-10 for weights in held.values())


def test_gradients_may_meet_at_a_node_that_has_none() -> None:
    assert_equal(accumulating(), APART, three(), iterations=6)


def test_every_iteration_has_its_own_divisor() -> None:
    assert_equal(padded("classes", accumulate=2), THREE_ROOTS, three(), iterations=6)
