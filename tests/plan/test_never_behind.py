"""hybrid and auto are never behind others under the same goal and rules, over random worlds (``worlds_to_loss``).

They are not behind because others' plans are among theirs, however well either has searched. So all search a little,
RightTrain's own question to others included, and worlds are small where they are many.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from palmette.plan.core.comparison import changes_learning, planned
from palmette.plan.core.make_plan import configured
from palmette.plan.righttrain import starts
from palmette.spec.codec_term import codings_of
from tests.plan.problems import LITTLE
from tests.plan.worlds_to_loss import behind, random_task

FEW_NODES = 3
QUICK = (2, 42, 49, 57)
"""Worlds of two nodes, without a loss, with one, with codecs; 42 has a batch of a single sample."""


@pytest.fixture(autouse=True)
def others_search_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starts, "configured", lambda name, options: configured(name, options | {"effort": LITTLE}))


@pytest.mark.slow
@pytest.mark.parametrize("seed", QUICK)
def test_hybrid_is_never_behind(seed: int) -> None:
    assert list(behind("hybrid", random_task(seed))) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2003))
@pytest.mark.parametrize("name", ["hybrid", "auto"])
def test_a_search_is_never_behind(name: str, seed: int) -> None:
    assert list(behind(name, random_task(seed, FEW_NODES))) == []


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(2000, 2060))
@pytest.mark.parametrize("name", ["hybrid", "auto"])
def test_nor_is_it_in_larger_worlds(name: str, seed: int) -> None:
    assert list(behind(name, random_task(seed))) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 49])
def test_without_a_loss_auto_stays_with_step(seed: int) -> None:
    world = random_task(seed)
    task = replace(world.task, goal=replace(world.task.goal, loss=None))
    made = planned("auto", task, {**world.options, "lossy": True})
    assert not changes_learning(made)
    assert {each.of for phase in made.phases for each in codings_of(phase)} <= {"outputs"}
