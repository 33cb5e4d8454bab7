"""hybrid and auto are never behind others under the same goal and rules, over random worlds (``worlds_to_loss``)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from palmette.plan.core.comparison import changes_learning, planned
from palmette.spec.codec_term import codings_of
from tests.plan.worlds_to_loss import behind, random_task
from tests.thorough import mostly_thorough

QUICK = (2, 42, 49, 57)
"""Worlds of two nodes, without a loss, with one, with codecs; 42 has a batch of a single sample."""


@pytest.mark.parametrize("seed", QUICK)
def test_hybrid_is_never_behind(seed: int) -> None:
    assert list(behind("hybrid", random_task(seed))) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(20), 1))
@pytest.mark.parametrize("name", ["hybrid", "auto"])
def test_a_search_is_never_behind(name: str, block: int) -> None:
    for seed in range(2000 + 3 * block, 2003 + 3 * block):
        assert list(behind(name, random_task(seed))) == [], seed


@pytest.mark.parametrize("seed", [2, 49])
def test_without_a_loss_auto_stays_with_step(seed: int) -> None:
    world = random_task(seed)
    task = replace(world.task, goal=replace(world.task.goal, loss=None))
    made = planned("auto", task, {**world.options, "lossy": True})
    assert not changes_learning(made)
    assert {each.of for phase in made.phases for each in codings_of(phase)} <= {"outputs"}
