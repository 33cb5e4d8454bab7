"""What accumulation saves: gradients and their norm travel once for n iterations."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.cost.optimizer import OptimizerCost
from palmette.spec.plan import Phase
from tests.cost.small import cluster, instance, link, node, phase, profile, source, times

LAYERS = [(10.0, 1.0), (0.0, 1.0), (40.0, 1.0)]
THREE = profile(LAYERS, a=times(3), b=times(3))
SLOW = cluster(link("a", "b", 400.0, latency_s=2.0), a=node(10), b=node(10))
REPLICAS = phase(*(source(at, 1, at) for at in "ab"), *(instance(at, 1, 3, at) for at in "ab"))
UPDATE_S = sum(THREE.nodes["a"].update_s)
CHAIN = phase(source("a", 1, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "b"))


def evaluated(every: int, *, clips: bool = False) -> Evaluator:
    return Evaluator(THREE, SLOW, OptimizerCost(clips_norm=clips, accumulate=every))


def priced(found: Phase, every: int, *, clips: bool = False) -> float:
    return evaluated(every, clips=clips).price(found).iteration_s


def test_gradients_travel_once_for_n_iterations() -> None:
    """All gradients there and back take two latencies, and 50 bytes at 400 bit/s a second each way."""
    always = priced(REPLICAS, 1)
    for every in (2, 5):
        saved_s = (1 - 1 / every) * (2 * (2 + 1) + UPDATE_S)
        assert priced(REPLICAS, every) == pytest.approx(always - saved_s)
        sent = evaluated(every).price(REPLICAS).nodes
        assert {name: each.sent_bytes for name, each in sent.items()} == pytest.approx(
            {"a": 50 / every, "b": 50 / every}
        )


def test_the_clock_has_played_an_iteration_that_updates() -> None:
    ((_, made, played),) = evaluated(4).price(REPLICAS).played
    assert len(made.steps) == len(made.size_bytes) == len(played.end_s)
    assert played.total_s == pytest.approx(priced(REPLICAS, 1))
    assert all(need < number for number, step in enumerate(made.steps) for need in step.after)


def test_nothing_is_saved_where_nothing_is_exchanged() -> None:
    assert priced(CHAIN, 4) == priced(CHAIN, 1)
    assert priced(CHAIN, 4, clips=True) < priced(CHAIN, 1, clips=True)


@pytest.mark.parametrize("sync", ["epoch", "async"])
def test_other_kinds_of_sync_do_not_exchange_in_an_iteration(sync: str) -> None:
    found = REPLICAS.model_copy(update={"sync": sync})
    assert priced(found, 4) == priced(found, 1)
