"""Plans whose gradients travel coded, or while backward goes on, because they were asked to."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.cost.evaluate import Evaluator
from palmette.errors import InputError
from palmette.plan.core.make_plan import overlapped, replan
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import Exchange, known_exchange
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.plan.problems import LITTLE, link, node, profile

BATCH = 64


def world() -> tuple[Profile, Cluster]:
    """Two owners of private data that are as fast as each other, so that both hold the whole network."""
    nodes = {name: node("device", samples=500, private=True) for name in ("one", "two")}
    known = profile(4, one=1.0, two=1.0)
    layers = [
        layer.model_copy(update={"parameter_bytes": 4e5, "output_bytes": 5e4, "weight_shapes": ((1000, 100),)})
        for layer in known.layers
    ]
    return known.model_copy(update={"layers": tuple(layers)}), Cluster(nodes=nodes, links=(link("one", "two", 20.0),))


def planned(strategy: str = "hybrid", *, shapes: bool = True, **asked: object) -> pt.Plan:
    known, cluster = world()
    if not shapes:
        layers = [layer.model_copy(update={"weight_shapes": None}) for layer in known.layers]
        known = known.model_copy(update={"layers": tuple(layers)})
    return pt.plan(strategy, profile=known, cluster=cluster, batch=BATCH, effort=LITTLE, **asked)  # type: ignore[arg-type]


def test_the_exchange_that_was_asked_for_stands_in_the_plan_and_its_price() -> None:
    plain, coded = planned(), planned(exchange_codec="int8")
    assert plain.phases[0].exchange == Exchange()
    assert coded.phases[0].exchange == Exchange(codec="int8")
    assert plain.estimate is not None
    assert coded.estimate is not None
    assert coded.estimate.iteration_s < plain.estimate.iteration_s
    assert pt.estimate(coded).iteration_s == coded.estimate.iteration_s
    assert any("gradients travel as int8" in warning for warning in coded.estimate.warnings)
    assert "exchange" not in plain.model_dump(mode="json")["phases"][0]


def test_a_plan_that_is_made_again_keeps_its_exchange() -> None:
    made = planned(exchange_codec="topk:0.05", overlap=True)
    assert made.asked is not None
    assert (made.asked.exchange, made.asked.overlap) == (known_exchange("topk:0.05"), True)
    assert replan(made, world()[1]).phases == made.phases


@pytest.mark.slow
def test_strategies_choose_no_codec_and_no_overlap_by_themselves() -> None:
    for strategy in ("hybrid", "auto"):
        (phase,) = planned(strategy).phases
        assert (phase.exchange, phase.overlap) == (Exchange(), False)


def test_overlap_is_set_where_it_is_faster() -> None:
    known, cluster = world()
    prices = Evaluator(known, cluster)
    sources = [{"node": name, "samples": 32, "into": name} for name in ("one", "two")]
    instances = [{"id": name, "layers": [1, 4], "node": name} for name in ("one", "two")]
    both = validated(Phase, {"sources": sources, "instances": instances})
    found = overlapped(both, prices)
    assert found.overlap
    assert prices.price(found).iteration_s < prices.price(both).iteration_s
    alone = validated(Phase, {"sources": sources[:1], "instances": instances[:1]})
    assert overlapped(alone, prices) == alone


def test_no_plan_becomes_slower_with_overlap() -> None:
    plain, asked = planned(), planned(overlap=True)
    assert plain.estimate is not None
    assert asked.estimate is not None
    assert asked.estimate.iteration_s <= plain.estimate.iteration_s
    assert asked.phases[0].overlap == (asked.estimate.iteration_s < plain.estimate.iteration_s)


@pytest.mark.parametrize("text", ["zip", "topk:2", "int8:3", "lowrank:x"])
def test_a_codec_that_is_none_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(InputError) as error:
        planned(exchange_codec=text)
    assert len(error.value.faults) == 1
    assert text in str(error.value.faults[0])


def test_a_low_rank_needs_a_profile_with_shapes() -> None:
    assert planned(exchange_codec="lowrank:2").phases[0].exchange == Exchange(codec="lowrank", rank=2)
    with pytest.raises(InputError, match="no shapes of weights"):
        planned(exchange_codec="lowrank:2", shapes=False)
