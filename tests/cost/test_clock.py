"""The event clock plays calls and transfers as closed forms worked out by hand say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from palmette.cost import clock
from palmette.cost.sharing import Path

FULL = [1.0, 1.0, 1.0]


class Graph(clock.Graph):
    """A graph that is written down together with its times."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []
        self.bits: list[float] = []

    def add_call(self, after: Sequence[int], node: int, share: float, seconds: float = 0.0) -> None:
        super().add_call(after, node, share)
        self.seconds.append(seconds)
        self.bits.append(0.0)

    def add_transfer(
        self,
        after: Sequence[int],
        path: Path,
        bits: float = 0.0,
        latency_s: float = 0.0,
        *,
        background: bool = False,
        behind: int | None = None,
    ) -> None:
        super().add_transfer(after, path, background=background, behind=behind)
        self.seconds.append(latency_s)
        self.bits.append(bits)


def play(graph: Graph, capacities: Sequence[float], limits: Sequence[float]) -> clock.Timing:
    return clock.play(graph, graph.seconds, graph.bits, limits, clock.Capacities(capacities))


def test_nothing_takes_no_time() -> None:
    assert play(Graph(), [], FULL).total_s == 0


def test_a_chain_of_calls_adds_up() -> None:
    graph = Graph()
    graph.add_call([], 0, 1.0, 2.0)
    graph.add_call([0], 0, 1.0, 3.0)
    graph.add_call([1], 1, 1.0, 4.0)
    played = play(graph, [], FULL)
    assert played.start_s == [0, 2, 5]
    assert played.end_s == [2, 5, 9]


def test_an_operation_starts_when_the_last_it_waits_for_has_ended() -> None:
    graph = Graph()
    graph.add_call([], 0, 1.0, 2.0)
    graph.add_call([], 1, 1.0, 5.0)
    graph.add_call([0, 1], 2, 1.0, 1.0)
    assert play(graph, [], FULL).start_s[2] == 5


def test_half_shares_run_side_by_side_and_a_third_queues() -> None:
    graph = Graph()
    for seconds in (4.0, 6.0, 1.0):
        graph.add_call([], 0, 0.5, seconds)
    played = play(graph, [], FULL)
    assert played.start_s == [0, 0, 4]
    assert played.end_s == [4, 6, 5]


def test_ten_tenths_fill_a_node_in_floating_point_too() -> None:
    graph = Graph()
    for _ in range(11):
        graph.add_call([], 0, 0.1, 1.0)
    assert play(graph, [], FULL).end_s == [1] * 10 + [2]


def test_calls_queue_first_come_first_served_even_where_a_later_one_would_fit() -> None:
    graph = Graph()
    graph.add_call([], 0, 0.6, 10.0)
    graph.add_call([], 1, 1.0, 1.0)
    graph.add_call([], 1, 1.0, 2.0)
    graph.add_call([1], 0, 0.6, 1.0)  # comes at 1 and does not fit
    graph.add_call([2], 0, 0.2, 1.0)  # comes at 3 and would fit, but is not the first
    played = play(graph, [], FULL)
    assert played.start_s[3:] == [10, 10]


def test_calls_that_come_together_take_turns_in_the_order_of_the_graph() -> None:
    graph = Graph()
    for seconds in (3.0, 2.0, 1.0):
        graph.add_call([], 0, 1.0, seconds)
    assert play(graph, [], FULL).start_s == [0, 3, 5]


def test_the_limit_of_a_node_bounds_the_shares_in_use() -> None:
    graph = Graph()
    for _ in range(3):
        graph.add_call([], 0, 0.25, 1.0)
    assert play(graph, [], [0.5]).end_s == [1, 1, 2]


def test_two_transfers_share_a_resource_then_the_longer_has_it_alone() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 10.0, 0.0)
    graph.add_transfer([], (0,), 30.0, 0.0)
    # Both at 5 bit/s until 2 s; then 20 bits are left at 10 bit/s.
    assert play(graph, [10.0], FULL).end_s == [2, 4]


def test_a_transfer_that_joins_later_slows_the_first_down() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 40.0, 0.0)
    graph.add_call([], 0, 1.0, 2.0)
    graph.add_transfer([1], (0,), 10.0, 0.0)
    # 20 bits alone by 2 s, both at 5 bit/s until 4 s, the last 10 bits alone until 5 s.
    assert play(graph, [10.0], FULL).end_s == [5, 2, 4]


def test_a_transfer_held_up_elsewhere_leaves_its_share_to_others() -> None:
    graph = Graph()
    graph.add_transfer([], (0, 1), 20.0, 0.0)  # 2 bit/s, all that resource 1 gives
    graph.add_transfer([], (0,), 80.0, 0.0)  # 8 bit/s, not the 5 of an equal split
    assert play(graph, [10.0, 2.0], FULL).end_s == [10, 10]


def test_latency_comes_after_the_bits_and_occupies_nothing() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 10.0, 5.0)
    graph.add_transfer([], (0,), 20.0, 0.0)
    graph.add_transfer([0], (0,), 10.0, 1.0)
    # 0: bits until 2, arrives at 7. 1: 10 bits until 2, alone until 3. 2: from 7, alone.
    assert play(graph, [10.0], FULL).end_s == [7, 3, 9]


def test_a_transfer_of_nothing_takes_its_latency() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 0.0, 3.0)
    graph.add_transfer([0], (0,), 0.0, 0.0)
    assert play(graph, [10.0], FULL).end_s == [3, 3]


def test_transfers_that_end_together_end_together() -> None:
    graph = Graph()
    for _ in range(7):
        graph.add_transfer([], (0,), 0.1, 0.0)
    played = play(graph, [3.0], FULL)
    assert len(set(played.end_s)) == 1
    assert played.total_s == pytest.approx(0.7 / 3, rel=1e-12)


def test_calls_without_time_end_at_once_and_in_order() -> None:
    graph = Graph()
    graph.add_call([], 0, 1.0, 0.0)
    graph.add_call([0], 0, 1.0, 0.0)
    graph.add_call([1], 0, 1.0, 1.0)
    assert play(graph, [], FULL).end_s == [0, 0, 1]


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e30])
def test_extreme_sizes_stay_finite_and_end(size: float) -> None:
    graph = Graph()
    graph.add_transfer([], (0, 1), size, 0.0)
    graph.add_transfer([], (1,), 1.0, 1e18)
    graph.add_call([0], 0, 1e-6, size / 1e-6)
    graph.add_transfer([2], (0,), size, 0.0)
    played = play(graph, [1.0, 1e18], FULL)
    assert all(start <= end < float("inf") for start, end in zip(*played, strict=True))


def test_samples_give_way_to_a_gradient_and_go_on_after_it() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 100.0, 0.0, background=True)  # 10 s alone
    graph.add_call([], 0, 1.0, 3.0)
    graph.add_transfer([1], (0,), 20.0, 0.5)  # 2 s from 3 s on, and its latency
    assert play(graph, [10.0], FULL).end_s == [12, 3, 5.5]


def test_samples_that_were_to_end_when_a_gradient_begins_have_ended() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 0.9, 0.0, background=True)  # 0.9 / 3 is not quite 0.3
    graph.add_call([], 0, 1.0, 0.3)
    graph.add_transfer([1], (0,), 30.0, 0.0)
    assert play(graph, [3.0], FULL).end_s == pytest.approx([0.3, 0.3, 10.3])


def test_samples_take_what_is_left_of_each_of_their_links() -> None:
    graph = Graph()
    graph.add_transfer([], (0, 1), 60.0, 0.0, background=True)
    graph.add_transfer([], (0,), 30.0, 0.0, background=True)
    graph.add_transfer([], (1, 2), 40.0, 0.0)  # 4 bit/s, all that resource 2 gives
    # Of resource 1, 6 − 4 = 2 bit/s are left for the first until 10 s, then all 6 for its last 40 bits.
    # So the second has 10 − 2 = 8 bit/s, until 3.75 s.
    assert play(graph, [10.0, 6.0, 4.0], FULL).end_s == pytest.approx([10 + 40 / 6, 3.75, 10])


def test_a_graph_that_waits_for_itself_is_a_mistake_of_the_caller() -> None:
    graph = Graph()
    graph.add_call([0], 0, 1.0, 1.0)
    with pytest.raises(AssertionError, match="waits for itself"):
        play(graph, [], FULL)


def test_a_transfer_behind_another_leaves_when_that_has_left_and_not_when_it_has_arrived() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 20.0, 5.0)
    graph.add_transfer([], (0,), 10.0, 5.0, behind=0)
    graph.add_call([0], 0, 1.0, 30.0)
    graph.add_transfer([2], (0,), 10.0, behind=1)
    played = play(graph, [10.0], FULL)
    assert played.start_s == [0, 2, 7, 37]
    assert played.end_s == [7, 8, 37, 38]


def test_a_transfer_behind_one_of_nothing_leaves_at_once() -> None:
    """A codec may leave no byte of a layer."""
    graph = Graph()
    graph.add_call([], 0, 1.0, 2.0)
    graph.add_transfer([0], (0,), 0.0, 5.0)
    graph.add_transfer([], (0,), 10.0, behind=1)
    graph.add_transfer([], (0,), 0.0, behind=2)
    graph.add_transfer([], (0,), 10.0, behind=3)
    played = play(graph, [10.0], FULL)
    assert played.start_s == [0, 2, 2, 3, 3]
    assert played.end_s == [2, 7, 3, 3, 4]


def test_transfers_that_are_not_behind_one_another_share_the_link() -> None:
    graph = Graph()
    graph.add_transfer([], (0,), 20.0, 5.0)
    graph.add_transfer([], (0,), 10.0, 5.0)
    assert play(graph, [10.0], FULL).end_s == [8, 7]
