"""The least that a graph of operations can take, against the event clock and by hand."""

from __future__ import annotations

import random

import pytest

from palmette.cost.clock import Capacities, Graph, play
from palmette.cost.critical_path import least_s, with_interruptions_s


def random_graph(seed: int) -> tuple[Graph, list[float], list[float]]:
    draw = random.Random(seed)
    graph, seconds, bits = Graph(), [], []
    for number in range(draw.randint(2, 14)):
        after = draw.sample(range(number), min(number, draw.randint(0, 2)))
        if draw.random() < 0.6:
            graph.add_call(after, draw.randrange(2), draw.choice((0.5, 1.0)))
            bits.append(0.0)
        else:
            graph.add_transfer(after, draw.choice(((0,), (1,), (0, 1))))
            bits.append(draw.uniform(0.0, 4.0))
        seconds.append(draw.uniform(0.0, 2.0))
    return graph, seconds, bits


@pytest.mark.parametrize("seed", range(60))
def test_the_clock_never_takes_less(seed: int) -> None:
    graph, seconds, bits = random_graph(seed)
    limits, capacities = [1.0, 1.0], [1.0, 2.0]
    total_s = play(graph, seconds, bits, limits, Capacities(capacities)).total_s
    assert least_s(graph, seconds, bits, limits, capacities) <= total_s * (1 + 1e-9)


def test_the_first_node_of_a_pipeline_waits_for_the_last_backward() -> None:
    """Two microbatches forward on node 0 (1 s), there and back on node 1 (4 s), and back on node 0 (1 s)."""
    graph = Graph()
    seconds = []
    for _ in range(2):
        for node, lasts_s in ((0, 1.0), (1, 4.0), (0, 1.0)):
            after = [len(seconds) - 1] if len(seconds) % 3 else []
            graph.add_call(after, node, 1.0)
            seconds.append(lasts_s)
    found = least_s(graph, seconds, [0.0] * 6, [1.0, 1.0], [])
    assert found == 1 + 4 + 4 + 1  # node 1 begins after 1 s, is busy for 8, and 1 s follows
    assert found == play(graph, seconds, [0.0] * 6, [1.0, 1.0], Capacities([])).total_s


@pytest.mark.parametrize(
    ("jobs", "done_s"),
    [
        ([(0.0, 2.0, 0.0), (0.0, 1.0, 5.0)], 6.0),  # the long tail goes first
        ([(0.0, 4.0, 0.0), (1.0, 1.0, 5.0)], 7.0),  # and interrupts
        ([(3.0, 1.0, 0.0), (0.0, 1.0, 0.0)], 4.0),  # the machine waits
        ([], 0.0),
    ],
)
def test_a_machine_serves_the_longest_tail_first(jobs: list[tuple[float, float, float]], done_s: float) -> None:
    assert with_interruptions_s(jobs) == done_s
