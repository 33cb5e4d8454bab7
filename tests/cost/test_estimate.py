"""The estimate that files and users see, from plan, profile and cluster."""

from __future__ import annotations

import pytest

from palmette.cost.estimate import estimate, evaluator
from palmette.errors import InputError
from tests.cost.small import cluster, instance, link, node, phase, plan, profile, source, times

TWO = profile([(10.0, 4.0), (10.0, 4.0)], a=times(2), b=times(2))
PAIR = cluster(link("a", "b"), a=node(10, power=(1.0, 5.0)), b=node(power=(1.0, 5.0)))
SPLIT = [source("a", 1, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 2, "b")]


def test_an_estimate_has_time_energy_and_each_nodes_part() -> None:
    found = estimate(plan(phase(*SPLIT)), TWO, PAIR)
    assert found.iteration_s == 2 * 3 + 2 * 4 + 0.5
    assert found.iteration_j == 2 * 14.5 + 4 * (3.5 + 3.5)
    assert found.epoch_s == 10 * 14.5
    assert found.total_s is found.epochs is found.total_j is None
    assert found.nodes is not None
    assert found.nodes["a"].busy_s == 3.5
    assert found.nodes["a"].energy_j == 14.5 + 4 * 3.5
    assert (found.nodes["b"].sent_bytes, found.nodes["b"].received_bytes) == (4, 4)
    assert found.nodes["b"].peak_memory_bytes == 2 * 10 + 4
    assert found.energy_source is not None
    assert found.energy_source.startswith("modelled")


def test_phases_with_known_epochs_add_up_to_a_whole() -> None:
    on_a = phase(source("a", 1, "I"), instance("I", 1, 2, "a"), epochs=3)
    found = estimate(plan(phase(*SPLIT, epochs=2), on_a), TWO, PAIR)
    alone_s, moved_s = 2 * 3.5, TWO.layers[1].parameter_bytes  # a byte a second: the second layer goes from b to a
    assert found.epochs == 5
    assert found.changes_s == moved_s
    assert found.changes_j == 2 * moved_s
    assert found.total_s == 10 * (2 * 14.5 + 3 * alone_s) + moved_s
    assert found.total_j == 10 * (2 * (2 * 14.5 + 4 * 7) + 3 * 5 * alone_s) + 2 * moved_s


def test_energy_of_unknown_origin_is_not_claimed() -> None:
    dark = cluster(link("a", "b"), a=node(10), b=node(power=(1.0, 5.0)))
    found = estimate(plan(phase(*SPLIT, epochs=1)), TWO, dark)
    assert found.iteration_j is found.epoch_j is found.total_j is found.energy_source is None
    assert found.total_s is not None
    assert found.nodes is not None
    assert found.nodes["a"].energy_j is None
    assert found.nodes["b"].energy_j is not None


def test_a_timeline_lists_every_operation_from_both_ends() -> None:
    found = estimate(plan(phase(*SPLIT)), TWO, PAIR, timeline=True)
    assert found.timeline is not None
    told = [(o.node, o.instance, o.op, o.start_s, o.end_s, o.bytes) for o in found.timeline]
    assert sorted(told) == sorted(
        [
            ("a", "I", "forward", 0, 1, 0),
            ("a", "I", "send", 1, 5, 4),
            ("b", "J", "receive", 1, 5, 4),
            ("b", "J", "forward", 5, 6, 0),
            ("b", "J", "backward", 6, 8, 0),
            ("b", "J", "send", 8, 12, 4),
            ("a", "I", "receive", 8, 12, 4),
            ("b", "J", "update", 8, 8.5, 0),
            ("a", "I", "backward", 12, 14, 0),
            ("a", "I", "update", 14, 14.5, 0),
        ]
    )
    assert [o.start_s for o in found.timeline] == sorted(o.start_s for o in found.timeline)


def test_a_plan_that_cannot_be_carried_out_has_no_price() -> None:
    with pytest.raises(InputError) as caught:
        estimate(plan(phase(source("a", 1, "I"), instance("I", 1, 2, "c"))), TWO, PAIR)
    assert [fault.field for fault in caught.value.faults] == ["phases[0].instances[0].node"]


def test_the_optimizer_changes_memory_and_nothing_else() -> None:
    sgd, adam = (estimate(plan(phase(*SPLIT)), TWO, PAIR, optimizer=o) for o in ("sgd", "adam"))
    assert sgd.iteration_s == adam.iteration_s
    assert sgd.nodes is not None
    assert adam.nodes is not None
    assert adam.nodes["a"].peak_memory_bytes - sgd.nodes["a"].peak_memory_bytes == 2 * 10


def test_the_estimate_of_the_largest_quantities_is_a_document_too() -> None:
    slow = profile([(1e18, 1e18)], 1e18, a=times(1, 1e18, 1e18, 1e18))
    found = estimate(plan(phase(source("a", 10, "I"), instance("I", 1, 1, "a"), epochs=10**12)), slow, PAIR)
    assert found.iteration_s == 21e18
    assert found.total_j is not None
    assert found.total_j < float("inf")


def test_an_evaluator_serves_again_for_the_same_profile_and_cluster() -> None:
    assert evaluator(TWO, PAIR) is evaluator(TWO, PAIR)
    assert evaluator(TWO, PAIR) is not evaluator(TWO, PAIR, "adam")
    assert evaluator(TWO, PAIR.model_copy()) is not evaluator(TWO, PAIR)
