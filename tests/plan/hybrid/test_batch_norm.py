"""Planners that choose freely never let batch norm see too few samples; the papers' keep their decisions and warn."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.cli.show.plan import show_plan
from palmette.cost.evaluate import Evaluator
from palmette.plan.core.comparison import small_norm_parts
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from tests.plan import fleets
from tests.plan.problems import LITTLE, link, profile, three_tiers


def normed(known: Profile) -> Profile:
    """The same network with a batch norm in every second layer."""
    layers = [
        layer.model_copy(update={"batch_norm_channels": (8,) if k % 2 == 0 else ()})
        for k, layer in enumerate(known.layers)
    ]
    return known.model_copy(update={"layers": tuple(layers)})


def where_parts_help() -> tuple[Profile, Cluster]:
    """A phone and a server that are equally fast, on a link over which statistics cost next to nothing."""
    known = profile(4, phone=5.0, server=5.0, cloud=5.0)
    links = (link("phone", "server", 800.0), link("server", "cloud", 800.0))
    return normed(known), three_tiers().model_copy(update={"links": links})


def planned(strategy: str, world: tuple[Profile, Cluster], batch: int, **options: object) -> Plan:
    if strategy in ("hybrid", "auto"):
        options["effort"] = LITTLE
    return pt.plan(strategy, profile=world[0], cluster=world[1], batch=batch, **options)  # type: ignore[arg-type]


def small(plan: Plan, world: tuple[Profile, Cluster], floor: int = 32) -> list[int]:
    return [part.samples for part in small_norm_parts(plan, Evaluator(*world), floor)]


@pytest.mark.parametrize(
    ("strategy", "batch"),
    [("hybrid", 8), ("hybrid", 200)]
    + [pytest.param("hybrid", batch, marks=pytest.mark.slow) for batch in (32, 64)]
    + [pytest.param("auto", batch, marks=pytest.mark.slow) for batch in (8, 32, 64, 200)],
)
def test_no_part_below_the_floor_normalises_by_itself(strategy: str, batch: int) -> None:
    world = where_parts_help()
    plan = planned(strategy, world, batch)
    assert small(plan, world) == []
    assert not any("batch norm" in told for told in plan.estimate.warnings)  # type: ignore[union-attr]


def test_a_small_batch_is_shared_with_statistics_of_the_whole() -> None:
    world = where_parts_help()
    (phase,) = planned("hybrid", world, 8).phases
    assert len({instance.node for instance in phase.instances}) > 1
    assert phase.batch_norm == "whole"


def test_a_large_batch_is_shared_in_parts_that_normalise_by_themselves() -> None:
    world = where_parts_help()
    plan = planned("hybrid", world, 200)
    assert plan.phases[0].batch_norm == "parts"
    told = plan.decision["batch_norm"]
    assert told["chosen"] == "parts"
    assert told["iteration_s"]["parts"] == plan.estimate.iteration_s  # type: ignore[union-attr]
    assert told["iteration_s"]["whole"] > told["iteration_s"]["parts"]


def test_the_floor_is_the_users_to_set() -> None:
    world = where_parts_help()
    low = planned("hybrid", world, 8, batch_norm_floor=1)
    assert low.phases[0].batch_norm == "parts"
    high = planned("hybrid", world, 200, batch_norm_floor=200)
    assert small(high, world, 200) == []
    with pytest.raises(pt.InputError, match="batch_norm_floor"):
        planned("hybrid", world, 8, batch_norm_floor=0)


def test_the_screen_says_that_statistics_are_shared(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(planned("hybrid", where_parts_help(), 8))
    assert "batch norm over the whole batch" in capsys.readouterr().out


def test_networks_without_batch_norm_are_planned_as_before() -> None:
    known, cluster = where_parts_help()
    plain = known.model_copy(
        update={"layers": tuple(layer.model_copy(update={"batch_norm_channels": ()}) for layer in known.layers)}
    )
    plan = planned("hybrid", (plain, cluster), 8)
    assert plan.phases[0].batch_norm == "parts"
    assert "batch_norm" not in plan.decision


def test_hiertrain_keeps_its_decision_and_warns() -> None:
    world = where_parts_help()
    plan = planned("hiertrain", world, 12)
    assert plan.phases[0].batch_norm == "parts"
    assert small(plan, world)
    assert any("batch norm sees only a part" in told for told in plan.estimate.warnings)  # type: ignore[union-attr]


@pytest.mark.slow
def test_auto_says_which_plans_it_left_out_for_it() -> None:
    plan = planned("auto", where_parts_help(), 12)
    assert "batch norm over" in plan.decision["left_out"]["hiertrain"]


@pytest.mark.slow
def test_a_fleet_with_few_samples_a_phone_shares_statistics_or_goes_elsewhere() -> None:
    known, cluster = fleets.fleet()
    world = normed(known), cluster
    plan = planned("hybrid", world, fleets.BATCH)
    assert small(plan, world) == []
