"""The way of a model from one phase to the next: what travels, and what that costs."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.handover import ModelTransfer, Move, change_price, copies_per_weight, model_transfer
from palmette.cost.optimizer import known_optimizer
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, profile, source, times

THREE = profile([(10.0, 1.0), (20.0, 1.0), (40.0, 1.0)], a=times(3), b=times(3), c=times(3))
WATT = {"power": (1.0, 5.0)}
LINE = cluster(link("a", "b"), link("b", "c"), a=node(10, **WATT), b=node(10, **WATT), c=node(10, **WATT))


def whole(at: str, sync: str = "step", pruning: float = 0.0) -> Phase:
    return phase(source(at, 1, "I"), instance("I", 1, 3, at), sync=sync, pruning=pruning)


def split(first: str, second: str) -> Phase:
    return phase(source(first, 1, "I"), instance("I", 1, 1, first, "J"), instance("J", 2, 3, second))


def everywhere(*nodes: str, sync: str = "epoch", pruning: float = 0.0, **more: Any) -> Phase:
    return phase(
        *(source(each, 1, each) for each in nodes),
        *(instance(each, 1, 3, each) for each in nodes),
        sync=sync,
        pruning=pruning,
        **more,
    )


def test_what_stays_where_it_is_does_not_travel() -> None:
    assert model_transfer(whole("a"), whole("a")) == ModelTransfer("a", (), ())
    assert model_transfer(everywhere("a", "b"), whole("b")).deliver == ()
    assert model_transfer(split("a", "b"), split("a", "b")) == ModelTransfer("b", (), ())


def test_layers_pass_through_where_the_phase_met() -> None:
    assert model_transfer(split("a", "b"), whole("c")) == ModelTransfer(
        "b", (Move("a", "b", ((1, 1),)),), (Move("b", "c", ((1, 3),)),)
    )
    assert model_transfer(split("a", "b"), whole("a")) == ModelTransfer("b", (), (Move("b", "a", ((2, 3),)),))


def test_a_smaller_model_goes_to_everybody_but_where_it_was_made() -> None:
    found = model_transfer(everywhere("a", "b"), everywhere("a", "b", "c", pruning=0.5))
    assert found == ModelTransfer("a", (), (Move("a", "b", ((1, 3),)), Move("a", "c", ((1, 3),))))
    gathered = model_transfer(split("a", "b"), whole("b", pruning=0.5))
    assert gathered == ModelTransfer("b", (Move("a", "b", ((1, 1),)),), ())


def test_a_parameter_server_is_all_that_needs_the_model() -> None:
    found = model_transfer(whole("a"), everywhere("b", "c", sync="async"))
    assert found.deliver == (Move("a", "b", ((1, 3),)),)
    assert model_transfer(everywhere("b", "c", sync="async"), whole("c")).deliver == (Move("b", "c", ((1, 3),)),)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (whole("a"), whole("b"), (1, 2, 3)),
        (everywhere("a", "b"), whole("c"), (1, 1, 1)),
        (whole("a", sync="epoch"), whole("b"), (1, 2, 3)),
        (everywhere("a", "b", sync="async"), whole("c"), (1, 2, 3)),
        (everywhere("a", "b", sync="every", every=2), whole("c"), (1, 2, 3)),
        (everywhere("a", "b", sync="every", every=2, outer={}), whole("c"), (1, 2, 3)),
        (everywhere("a", "b", outer={}), everywhere("c", "b", outer={}), (2, 2, 2)),
    ],
)
def test_the_optimizers_state_goes_along_where_it_lives_on(
    before: Phase, after: Phase, expected: tuple[int, int, int]
) -> None:
    known = [known_optimizer(name) for name in ("sgd", "momentum", "adam")]
    assert tuple(copies_per_weight(before, after, each) for each in known) == expected


def test_pruning_takes_the_time_that_the_profile_says() -> None:
    """Half a second of node a at 5 W, then 35 bytes to b at a byte a second while both are idle."""
    half = profile([(5.0, 1.0), (10.0, 1.0), (20.0, 1.0)], a=times(3), b=times(3), c=times(3))
    told = {"nodes": half.nodes | {"a": half.nodes["a"].model_copy(update={"prune_s": 0.5})}}
    made = THREE.model_copy(update={"variants": {"0.5": half.model_copy(update=told)}})
    before, after = whole("a"), whole("b", pruning=0.5)
    assert change_price(before, after, Evaluator(made, LINE))[:2] == (35.5, 72.5)
    assert change_price(before, whole("a", pruning=0.5), Evaluator(made, LINE))[:2] == (0.5, 2.5)
    assert change_price(whole("b"), whole("b", pruning=0.5), Evaluator(made, LINE))[:2] == (0.0, 0.0)


def test_a_change_is_priced_as_its_transfers() -> None:
    """A byte a second: 10 bytes from a to b, then 70 from b to c, and three nodes idle at a watt."""
    assert change_price(split("a", "b"), whole("c"), Evaluator(THREE, LINE))[:2] == (80.0, 240.0)
    assert change_price(split("a", "b"), whole("c"), Evaluator(THREE, LINE, "adam"))[:2] == (240.0, 720.0)
    assert change_price(whole("a"), whole("a"), Evaluator(THREE, LINE))[:2] == (0.0, 0.0)
