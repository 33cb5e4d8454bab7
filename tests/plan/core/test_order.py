"""Microbatches in turns, chosen where memory or time asks for it."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.plan.core.order import in_turns, with_first_halves
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.small import cluster, link, node, profile, times
from tests.cost.test_order import pipeline

WEIGHTS = 2 * 10.0  # of one layer, with its gradients
KEPT = 100.0  # activations of a sample in one layer


def two_nodes(memory_bytes: float) -> tuple[Profile, Cluster]:
    """Two layers, of which each node holds one only; recomputing would keep more than it saves."""
    known = profile([(10.0, 1.0, KEPT)] * 2, 200.0, a=times(2), b=times(2))
    nodes = {"a": node(64, private=True, memory_bytes=memory_bytes), "b": node(memory_bytes=memory_bytes)}
    return known, cluster(link("a", "b", 8e6), **nodes)


def test_a_pipeline_that_only_fits_in_turns_is_planned_in_turns() -> None:
    known, nodes = two_nodes(WEIGHTS + 5 * KEPT)  # a whole batch keeps 8 times that much on each node
    plan = pt.plan("hybrid", profile=known, cluster=nodes, batch=8, effort=0.2)
    (phase,), order = plan.phases, plan.decision["order"]
    assert phase.order == "1f1b"
    assert {each.node for each in phase.instances} == {"a", "b"}
    assert max(order["peak_bytes"].values()) <= WEIGHTS + 5 * KEPT < max(order["otherwise_bytes"].values())
    assert not any(each.recompute for each in phase.instances)


def test_memory_for_the_whole_batch_leaves_the_order_as_it_comes() -> None:
    known, nodes = two_nodes(2 * WEIGHTS + 16 * KEPT)
    plan = pt.plan("hybrid", profile=known, cluster=nodes, batch=8, effort=0.2)
    assert plan.phases[0].order == "fifo" or plan.decision["order"]["added_s"] < 0


def test_too_little_memory_for_a_sample_of_each_is_refused() -> None:
    known, nodes = two_nodes(WEIGHTS + KEPT - 1)
    with pytest.raises(pt.Infeasible, match="does not fit the memory"):
        pt.plan("hybrid", profile=known, cluster=nodes, batch=8, effort=0.2)


@pytest.mark.parametrize(("tree", "has_turns"), [(pipeline(3), True), (pipeline(1), False)])
def test_only_microbatches_take_turns(tree: Phase, has_turns: bool) -> None:
    found = in_turns(tree)
    assert (found is not None) == has_turns
    assert found is None or in_turns(found) is None


def halves_of(known: Profile, part: float) -> Profile:
    """The profile, with what the gradients of inputs take of backward."""
    nodes = {
        name: each.model_copy(update={"backward_input_s": tuple(part * all_s for all_s in each.backward_s)})
        for name, each in known.nodes.items()
    }
    return known.model_copy(update={"nodes": nodes})


@pytest.mark.parametrize(("part", "chosen"), [(0.4, True), (0.99, False), (None, False)])
def test_backward_falls_into_halves_where_that_is_clearly_faster(part: float | None, chosen: bool) -> None:
    known = profile([(10.0, 1.0, KEPT)] * 2, 200.0, a=times(2, 1.0, 2.0, 0.1), b=times(2, 1.0, 2.0, 0.1))
    known = known if part is None else halves_of(known, part)
    nodes = cluster(link("a", "b", 8e6), a=node(64, private=True), b=node())
    plan = pt.plan("hybrid", profile=known, cluster=nodes, batch=8, effort=0.2)
    assert (plan.phases[0].order == "zero-bubble") == chosen
    if chosen:
        assert plan.decision["order"]["added_s"] < 0
        assert 0 < plan.decision["lower_bound"] < plan.decision["value"]
        assert plan.phases[0].shares_layers() or len(plan.phases[0].instances) > 1


def test_a_lower_bound_for_halves_counts_the_first_of_them_alone() -> None:
    known = halves_of(profile([(10.0, 1.0)] * 2, 200.0, a=times(2, 1.0, 2.0)), 0.25)
    assert with_first_halves(known).nodes["a"].backward_s == (0.5, 0.5)
