"""The price of a phase against closed forms by hand: a layer takes 1 s forward, 2 s backward, 0.5 s to update."""

from __future__ import annotations

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.cost.small import cluster, instance, link, node, phase, price, profile, source, times, timetable

ABC = {name: node(12, power=(1.0, 3.0)) for name in "abc"}


def line(**more: object) -> Cluster:
    """Three nodes, a ── b ── c, at a byte a second."""
    return cluster(link("a", "b", **more), link("b", "c", **more), **ABC)


def layers(count: int, weights: float = 0.0, output: float = 1.0, **more: float) -> Profile:
    """Layers that are all alike, on every node, and a byte a sample of input."""
    return profile([(weights, output)] * count, 1.0, **{name: times(count, **more) for name in "abc"})


# Chains


def test_a_chain_on_one_node_is_the_sum_of_its_parts() -> None:
    found = price(
        line(), layers(3), phase(source("a", 4, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "a"))
    )
    # Forward and backward of all layers, then J and I update one after the other.
    assert found.iteration_s == 4 * 3 * (1 + 2) + 3 * 0.5
    assert found.nodes["a"].busy_s == found.iteration_s


def test_the_fixed_part_of_a_call_counts_once_a_call() -> None:
    fixed = layers(2, forward_call_s=0.25, backward_call_s=0.125)
    found = price(line(), fixed, phase(source("a", 4, "I"), instance("I", 1, 2, "a")))
    assert found.iteration_s == 2 * (0.25 + 4 * 1) + 2 * (0.125 + 4 * 2) + 2 * 0.5


def test_data_travels_first() -> None:
    found = price(line(), layers(1), phase(source("a", 4, "I"), instance("I", 1, 1, "b")))
    assert found.iteration_s == 4 + 4 * 3 + 0.5


def test_a_split_in_two_waits_for_output_and_gradient() -> None:
    found = price(
        line(latency_s=0.25),
        layers(3, output=2.0),
        phase(source("a", 1, "I"), instance("I", 1, 2, "a", "J"), instance("J", 3, 3, "b")),
    )
    # forward I 2, output 2, forward J 1, backward J 2, gradient 2, backward I 4, update I 1; J updates meanwhile.
    assert found.iteration_s == 2 + 2.25 + 1 + 2 + 2.25 + 4 + 1
    when = timetable(found)
    assert when["forward", "J"] == (4.25, 5.25)
    assert when["update", "J"] == (7.25, 7.75)
    assert when["backward", "I"] == (9.5, 13.5)


def test_a_split_in_three() -> None:
    chain = phase(
        source("a", 1, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 2, "b", "K"), instance("K", 3, 3, "c")
    )
    found = price(line(), layers(3, output=4.0), chain)
    assert found.iteration_s == 3 * 1 + 3 * 2 + 4 * 4 + 0.5
    assert [found.nodes[name].sent_bytes for name in "abc"] == [4, 8, 4]
    assert [found.nodes[name].received_bytes for name in "abc"] == [4, 8, 4]


def test_a_chain_that_returns_to_a_node() -> None:
    chain = phase(
        source("a", 1, "I"), instance("I", 1, 1, "a", "J"), instance("J", 2, 2, "b", "K"), instance("K", 3, 3, "a")
    )
    found = price(line(), layers(3), chain)
    # K's update (at 9 s by then) is over before the gradient is back at a.
    assert found.iteration_s == 9 + 4 * 1 + 0.5


def test_int8_makes_output_and_gradient_a_quarter_and_counts_the_label() -> None:
    chain = [source("a", 1, "I"), instance("J", 2, 2, "b")]
    plain = price(line(), layers(2, output=10.0), phase(*chain, instance("I", 1, 1, "a", "J")))
    coded = price(line(), layers(2, output=10.0), phase(*chain, instance("I", 1, 1, "a", "J", codec="int8")))
    assert plain.iteration_s - coded.iteration_s == 2 * (10 - 3) - 8
    assert (coded.nodes["a"].sent_bytes, coded.nodes["b"].sent_bytes) == (3 + 8, 3)


# Sharing links


def test_two_sources_share_a_link_until_the_smaller_is_through() -> None:
    shared = phase(source("a", 2, "I"), source("a", 6, "J"), instance("I", 1, 1, "b"), instance("J", 1, 1, "b"))
    when = timetable(price(line(), layers(1), shared))
    # Half a byte a second each until 4 s; the other four bytes of J alone until 8 s.
    assert when["data", "I"] == (0, 4)
    assert when["data", "J"] == (0, 8)


def test_what_a_slower_link_holds_up_leaves_its_share_to_others() -> None:
    bent = cluster(link("a", "b", 80.0), link("b", "c", 8.0), **ABC)
    shared = phase(source("a", 2, "I"), source("a", 36, "J"), instance("I", 1, 1, "c"), instance("J", 1, 1, "b"))
    when = timetable(price(bent, layers(1), shared))
    # To c at the 1 byte a second of its second link; to b at the other 9, then at 10.
    assert when["data", "I"] == (0, 2)
    assert when["data", "J"] == (0, pytest.approx(2 + (36 - 18) / 10))


@pytest.mark.parametrize(("duplex", "seconds"), [("full", 4), ("half", 8)])
def test_both_directions_share_a_half_duplex_link(duplex: str, seconds: float) -> None:
    crossing = phase(source("a", 4, "I"), source("b", 4, "J"), instance("I", 1, 1, "b"), instance("J", 1, 1, "a"))
    when = timetable(price(line(duplex=duplex), layers(1), crossing))
    assert when["data", "I"] == when["data", "J"] == (0, seconds)


def test_a_path_of_two_links_has_the_bandwidth_of_the_narrower_and_both_latencies() -> None:
    bent = cluster(link("a", "b", 80.0, latency_s=1.0), link("b", "c", 8.0, latency_s=2.0), **ABC)
    found = price(bent, layers(1), phase(source("a", 5, "I"), instance("I", 1, 1, "c")))
    assert timetable(found)["data", "I"] == (0, 5 + 3)
    assert found.nodes.keys() == {"a", "c"}


# CPU shares


def test_the_time_of_a_call_is_over_its_share() -> None:
    found = price(line(), layers(1), phase(source("a", 1, "I"), instance("I", 1, 1, "a", cpu_share=0.25)))
    assert found.iteration_s == 3.5 / 0.25


def test_two_halves_run_side_by_side_and_a_third_queues() -> None:
    names = ["I", "J", "K"]
    three = phase(
        *(source("a", 1, name) for name in names), *(instance(name, 1, 1, "a", cpu_share=0.5) for name in names)
    )
    when = timetable(price(line(), layers(1), three))
    assert when["forward", "I"] == when["forward", "J"] == (0, 2)
    assert when["forward", "K"] == (2, 4)  # it came first, before the backward calls
    assert when["backward", "J"] == (2, 6)  # mirrors forward: the last first
    assert when["backward", "I"] == (4, 8)


def test_a_cpu_limit_keeps_calls_apart() -> None:
    names = ["I", "J"]
    both = phase(
        *(source("a", 1, name) for name in names), *(instance(name, 1, 1, "a", cpu_share=0.5) for name in names)
    )
    free, limited = line(), cluster(a=node(9, limits={"cpu_share": 0.5}))
    assert price(free, layers(1), both).iteration_s == 7
    assert price(limited, layers(1), both).iteration_s == 13  # two passes of 6 s one after the other, one update


# Replicas


def test_replicas_push_average_pull_and_update() -> None:
    pair = phase(source("a", 1, "I"), source("b", 2, "J"), instance("I", 1, 1, "a"), instance("J", 1, 1, "b"))
    found = price(line(latency_s=0.5), layers(1, weights=4.0), pair)
    # J is through at 6 s and sends 4 bytes to a, where the first root is; back with the average; both update.
    when = timetable(found)
    assert when["push", "J"] == (6, 10.5)
    assert when["update", "I"] == (10.5, 11)
    assert when["pull", "J"] == (10.5, 15)
    assert found.iteration_s == 15.5
    assert (found.nodes["a"].sent_bytes, found.nodes["a"].received_bytes) == (4, 4)


def test_replicas_on_one_node_exchange_without_traffic() -> None:
    twins = phase(source("a", 1, "I"), source("a", 1, "J"), instance("I", 1, 1, "a"), instance("J", 1, 1, "a"))
    found = price(line(), layers(1, weights=99.0), twins)
    assert found.nodes["a"].sent_bytes == 0
    assert found.iteration_s == 2 * 3 + 0.5  # the node updates its layer once


def test_pushes_share_the_way_to_the_meeting_place() -> None:
    star = cluster(link("a", "b"), link("c", "b"), link("b", "d"), **ABC, d=node(9))
    three = profile([(2.0, 1.0)], **{name: times(1) for name in "acd"})
    whole = phase(*(source(x, 1, x.upper()) for x in "dac"), *(instance(x.upper(), 1, 1, x) for x in "dac"))
    when = timetable(price(star, three, whole))
    assert when["push", "A"] == when["push", "C"] == (3, 7)  # 2 bytes each over one link of a byte a second
    assert when["pull", "A"] == when["pull", "C"] == (7, 11)


def test_the_update_of_an_instance_without_replicas_waits_for_nothing_else() -> None:
    tree = phase(
        source("a", 1, "I"),
        source("b", 1, "J"),
        instance("I", 1, 1, "a", "K"),
        instance("J", 1, 1, "b", "K"),
        instance("K", 2, 2, "c"),
    )
    when = timetable(price(line(), layers(2, weights=5.0), tree))
    assert when["update", "K"][0] == when["backward", "K"][1]
    assert when["update", "I"][0] == when["pull", "I"][1]


# Epochs


def test_an_epoch_under_step_is_as_many_iterations_as_its_samples_need() -> None:
    found = price(line(), layers(1), phase(source("a", 5, "I"), instance("I", 1, 1, "a")))
    assert found.epoch.time_s == 3 * found.iteration_s  # 12 samples in batches of 5
    assert found.epoch.nodes["a"].busy_s == 3 * found.nodes["a"].busy_s
    fewer = price(line(), layers(1), phase(source("a", 5, "I", epoch_samples=10), instance("I", 1, 1, "a")))
    assert fewer.epoch.time_s == 2 * fewer.iteration_s


def test_an_epoch_of_federated_averaging_is_the_slowest_shard_and_the_exchange_of_weights() -> None:
    slow_b = profile([(4.0, 1.0)], a=times(1), b=times(1, 2.0, 4.0, 1.0))
    both = phase(
        source("a", 6, "I"),
        source("b", 3, "J", epoch_samples=9),
        instance("I", 1, 1, "a"),
        instance("J", 1, 1, "b"),
        sync="epoch",
        server="c",
    )
    found = price(line(), slow_b, both)
    a_step, b_step = 6 * 3 + 0.5, 3 * 6 + 1
    # a to c and b to c share the link from b to c: 8 bytes in 8 s, and the same back.
    assert found.epoch.time_s == max(2 * a_step, 3 * b_step) + 8 + 8
    assert found.iteration_s == max(a_step, b_step)
    assert found.epoch.nodes["a"].busy_s == 2 * a_step
    assert found.epoch.nodes["b"].busy_s == 3 * b_step
    assert found.epoch.nodes["c"].received_bytes == found.epoch.nodes["c"].sent_bytes == 8
    assert found.epoch.energy_j == 3 * found.epoch.time_s * 1 + 2 * (2 * a_step + 3 * b_step)


def test_masked_weights_take_eight_bytes_a_number_on_their_way_to_the_server() -> None:
    known = line(), profile([(4.0, 1.0)], a=times(1), b=times(1))
    parts = source("a", 3, "I"), source("b", 3, "J"), instance("I", 1, 1, "a"), instance("J", 1, 1, "b")
    plain, masked = (
        price(*known, phase(*parts, sync="epoch", server="c", secure_aggregation=masks)) for masks in (False, True)
    )
    assert masked.epoch.nodes["c"].received_bytes == 2 * plain.epoch.nodes["c"].received_bytes > 0
    assert masked.epoch.nodes["c"].sent_bytes == plain.epoch.nodes["c"].sent_bytes
    assert masked.epoch.time_s == plain.epoch.time_s + 8


def test_weights_meet_at_the_first_root_where_no_server_is_named() -> None:
    both = phase(
        source("a", 12, "I"), source("b", 12, "J"), instance("I", 1, 1, "a"), instance("J", 1, 1, "b"), sync="epoch"
    )
    found = price(line(), layers(1, weights=4.0), both)
    assert found.epoch.time_s == 12 * 3 + 0.5 + 4 + 4


def test_two_trees_of_federated_averaging_share_the_samples_of_one_node() -> None:
    two = phase(
        source("a", 2, "I"),
        source("a", 4, "J"),
        instance("I", 1, 1, "a"),
        instance("J", 1, 1, "b"),
        sync="epoch",
        server="c",
    )
    found = price(line(), layers(1), two)
    # Of the 12 samples of a, I has 4 in batches of 2 and J has 8 in batches of 4, which travel first.
    assert found.epoch.nodes["a"].busy_s == 2 * (2 * 3 + 0.5)
    assert found.epoch.nodes["b"].busy_s == 2 * (4 * 3 + 0.5)
    assert found.epoch.time_s == 2 * (4 + 4 * 3 + 0.5)


def windows_of(every: int, depth: int = 1, **more: object) -> Phase:
    return phase(
        source("a", 2, "I"),
        source("b", 1, "J"),
        instance("I", 1, depth, "a"),
        instance("J", 1, depth, "b"),
        sync="every",
        server="c",
        every=every,
        **more,
    )


def test_a_window_is_so_many_steps_of_the_slowest_tree_and_an_exchange_of_weights() -> None:
    found = price(line(), layers(1, weights=4.0), windows_of(3))
    a_step, b_step = 2 * 3 + 0.5, 3 + 0.5
    # a to c and b to c share the link from b to c: 8 bytes in 8 s, and the same back.
    assert found.iteration_s == pytest.approx(a_step + 16 / 3)
    # 24 samples in batches of 3 are 8 steps: windows of 3, 3 and 2.
    assert found.epoch_iterations == 8
    assert found.epoch.time_s == 8 * a_step + 3 * 16
    assert found.epoch.nodes["a"].busy_s == 8 * a_step
    assert found.epoch.nodes["b"].busy_s == 8 * b_step
    assert found.epoch.nodes["c"].received_bytes == found.epoch.nodes["c"].sent_bytes == 3 * 8
    assert found.epoch.energy_j == 3 * found.epoch.time_s * 1 + 2 * 8 * (a_step + b_step)
    assert found.nodes["a"].sent_bytes == pytest.approx(4 / 3)


@pytest.mark.parametrize(("delay", "left_s"), [(0, 16), (1, 3)])
def test_parts_in_turns_take_what_the_steps_meanwhile_leave_of_them(delay: int, left_s: float) -> None:
    made = windows_of(4, turns={"fragments": 2, "delay": delay}, depth=2)
    found = price(line(), layers(2, weights=4.0), made)
    a_step = 2 * (2 * 3 + 0.5)
    # A part is 8 bytes over the link from b to c, and the same back, after steps 2, 4 and 6; after step 8, both are.
    assert found.epoch.time_s == 8 * a_step + 3 * left_s + 32
    assert found.iteration_s == found.epoch.time_s / 8
    assert found.epoch.nodes["c"].received_bytes == found.epoch.nodes["c"].sent_bytes == 3 * 8 + 16


def test_a_window_is_no_longer_than_an_epoch() -> None:
    found = price(line(), layers(1, weights=4.0), windows_of(1000))
    assert found.epoch.time_s == 8 * (2 * 3 + 0.5) + 16
    assert found.iteration_s == found.epoch.time_s / 8


def test_a_window_of_one_step_costs_what_step_costs_unless_an_outer_optimizer_follows() -> None:
    step = windows_of(1).model_copy(update={"sync": "step", "every": None})
    known = line(), layers(1, weights=4.0)
    assert price(*known, windows_of(1)).epoch == price(*known, step).epoch
    assert price(*known, windows_of(1, outer={})).iteration_s == 2 * 3 + 0.5 + 16


def test_local_epochs_repeat_the_shard_before_weights_are_exchanged() -> None:
    parts = [source("a", 6, "I"), instance("I", 1, 1, "a")]
    once = price(line(), layers(1, weights=4.0), phase(*parts, sync="epoch", server="b"))
    thrice = price(line(), layers(1, weights=4.0), phase(*parts, sync="epoch", server="b", local_epochs=3))
    assert thrice.epoch.time_s - 8 == 3 * (once.epoch.time_s - 8)


def test_a_lone_tree_without_a_server_exchanges_nothing() -> None:
    found = price(line(), layers(1, weights=4.0), phase(source("a", 6, "I"), instance("I", 1, 1, "a"), sync="epoch"))
    assert found.epoch.time_s == 2 * (6 * 3 + 0.5)


# Parameter servers


def test_the_rates_of_asynchronous_workers_add_up() -> None:
    # Each pulls 4 bytes, computes, pushes 4 bytes over a link of its own; no two updates of 0.5 s meet.
    both = phase(
        source("a", 1, "I"),
        source("c", 2, "J"),
        instance("I", 1, 1, "a"),
        instance("J", 1, 1, "c"),
        sync="async",
        server="b",
    )
    found = price(line(latency_s=0.5), layers(1, weights=4.0), both)
    a_step, c_step = 4.5 + 3 + 4.5 + 0.5, 4.5 + 6 + 4.5 + 0.5
    mean = 1 / (1 / a_step + 1 / c_step)
    assert found.iteration_s == pytest.approx(mean)
    assert found.nodes["a"].busy_s == pytest.approx(3 * mean / a_step)
    assert found.nodes["b"].busy_s == pytest.approx(0.5)
    assert found.nodes["b"].sent_bytes == pytest.approx(4)
    assert found.iteration_j == pytest.approx(3 * mean + 2 * (3 * mean / a_step + 6 * mean / c_step + 0.5))
    samples = (1 / a_step + 2 / c_step) * mean
    assert found.epoch.time_s == pytest.approx(-(-24 // samples) * mean)


def test_a_worker_on_the_server_needs_neither_pull_nor_push() -> None:
    alone = phase(source("a", 1, "I"), instance("I", 1, 1, "a"), sync="async")
    found = price(line(), layers(1, weights=4.0), alone)
    assert found.iteration_s == 3.5
    assert found.nodes["a"].sent_bytes == 0


def test_the_server_updates_with_all_the_cpu_that_it_may_use() -> None:
    limited = cluster(link("a", "b"), a=node(9), b=node(limits={"cpu_share": 0.5}))
    found = price(
        limited,
        layers(1, weights=4.0),
        phase(source("a", 1, "I"), instance("I", 1, 1, "a"), sync="async", server="b"),
    )
    assert found.iteration_s == 4 + 3 + 4 + 1


# Extremes


def test_an_iteration_without_any_time_is_free() -> None:
    instant = profile([(0.0, 0.0)], a=times(1, 0.0, 0.0, 0.0))
    for sync in ("step", "epoch", "async"):
        found = price(line(), instant, phase(source("a", 1, "I"), instance("I", 1, 1, "a"), sync=sync))
        assert (found.iteration_s, found.iteration_j, found.epoch.time_s) == (0, 0, 0)


@pytest.mark.parametrize("sync", ["step", "epoch", "async"])
def test_the_largest_quantities_allowed_stay_finite(sync: str) -> None:
    most = 1e18
    extreme = cluster(
        link("a", "b", 1.0, latency_s=most, energy_j_per_bit=most),
        a=node(10**12, power=(most, most, most)),
        b=node(power=(0.0, most, 1e-9)),
    )
    heavy = profile([(most, most)] * 2, most, a=times(2, most, most, most), b=times(2, most, most, most))
    found = Evaluator(heavy, extreme).price(
        phase(
            source("a", 10**12, "I"),
            instance("I", 1, 1, "a", "J", cpu_share=1e-6),
            instance("J", 2, 2, "b", cpu_share=1e-6),
            sync=sync,
            local_epochs=10**12,
        )
    )
    assert found.iteration_j is not None
    assert found.epoch.energy_j is not None
    assert 0 < found.iteration_s < found.epoch.time_s * 2 < float("inf")
    assert 0 < found.iteration_j < found.epoch.energy_j * 2 < float("inf")


def test_smaller_models_are_priced_with_their_own_times_and_sizes() -> None:
    table = {"layers": [{"name": "l", "parameter_bytes": 1.0, "output_bytes": 1.0}], "nodes": {"a": times(1, 0.25)}}
    pruned = Profile(
        model="tiny",
        input_bytes=1.0,
        layers=table["layers"],
        nodes={"a": times(1)},
        variants={"0.5": table},
    )
    parts = [source("a", 4, "I"), instance("I", 1, 1, "a")]
    assert price(line(), pruned, phase(*parts)).iteration_s == 4 * 3 + 0.5
    assert price(line(), pruned, phase(*parts, pruning=0.5)).iteration_s == 4 * 2.25 + 0.5
