"""Strategies by name, their options, and what happens to a strategy that misbehaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import ClassVar

import pytest

import palmette as pt
from palmette.plan.core import registry
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.registry import find, strategies
from palmette.plan.core.strategy import Decision, Task
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance
from tests.plan.problems import profile, three_tiers


@dataclass(frozen=True, kw_only=True)
class CutInTwo:
    """The first layers at the source, the rest in the cloud."""

    name: ClassVar[str] = "cut-in-two"
    summary: ClassVar[str] = "the first layers on the phone, the rest in the cloud"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True

    cut: int = field(default=1, metadata={"help": "The last layer on the phone."})

    def decide(self, task: Task) -> Decision:
        last = len(task.profile.layers)
        return Decision(
            (
                Phase(
                    sources=(Feed(node="phone", samples=task.batch, into="front"),),
                    instances=(
                        Instance(id="front", layers=(1, self.cut), node="phone", into="back"),
                        Instance(id="back", layers=(self.cut + 1, last), node="cloud"),
                    ),
                ),
            ),
            {"cut": self.cut},
        )


@pytest.fixture
def cut_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**strategies(), CutInTwo.name: CutInTwo}
    monkeypatch.setattr(registry, "strategies", lambda: known)


def test_every_strategy_says_what_it_is() -> None:
    for name, kind in strategies().items():
        assert find(name) is kind
        assert kind.name == name
        assert kind.summary
        assert "\n" not in kind.summary
        assert kind.default_goal
        assert isinstance(kind.plans_epochs, bool)
        assert isinstance(kind.needs_profile, bool)


def test_a_strategy_that_does_not_inherit_has_the_default_traits(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("cut")
    module.STRATEGIES = (type("Plain", (CutInTwo,), {}),)  # type: ignore[attr-defined]
    monkeypatch.setattr(registry, "_modules", lambda: [module])
    (kind,) = strategies.__wrapped__().values()
    traits = [kind.composed, kind.starts_from_others, kind.uses_one_node, kind.plans_quickly, kind.decides_online]
    assert traits == [False] * 5


def test_an_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(pt.InputError, match=r"all-egde: no such strategy; did you mean all-edge\?"):
        pt.plan("all-egde", profile=profile(), cluster=three_tiers())


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(pt.InputError, match="cut: 3: no such option of all-edge"):
        pt.plan("all-edge", profile=profile(), cluster=three_tiers(), cut=3)


@pytest.mark.usefixtures("cut_in_two")
def test_the_fields_of_a_strategy_are_its_options() -> None:
    plan = pt.plan("cut-in-two", profile=profile(4), cluster=three_tiers(), batch=8, cut=3)
    assert [instance.layers for instance in plan.phases[0].instances] == [(1, 3), (4, 4)]
    assert plan.decision == {"cut": 3}


@pytest.mark.usefixtures("cut_in_two")
def test_a_misspelt_option_names_the_nearest() -> None:
    with pytest.raises(pt.InputError, match=r"cuts: 3: no such option of cut-in-two; did you mean cut\?"):
        configured("cut-in-two", {"cuts": 3})


def test_a_strategy_whose_plan_cannot_be_carried_out_is_stopped() -> None:
    nowhere = three_tiers().model_copy(update={"links": ()})
    with pytest.raises(AssertionError, match="cut-in-two made a plan that cannot be executed"):
        make_plan(CutInTwo(), Task(profile=profile(4), cluster=nowhere, batch=8))


@pytest.mark.parametrize("batch", [0, -1, 10**12 + 1])
def test_a_batch_has_to_be_a_batch(batch: int) -> None:
    with pytest.raises(pt.InputError, match=f"batch: {batch}"):
        pt.plan("all-edge", profile=profile(), cluster=three_tiers(), batch=batch)
