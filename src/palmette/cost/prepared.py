"""The operations of one iteration as the clock plays them, and of several iterations in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palmette.cost.clock import Graph
from palmette.cost.steps import Kind, Steps
from palmette.spec.tree import Instance

MARKS = 2
"""Operations behind each of several iterations: where its samples are sent, and where it is done."""


class PreparedSteps(NamedTuple):
    """Operations as the clock plays them; phases that differ only in their samples share one.

    The graph holds one iteration, or several in a row. Each of several is followed by two operations that take no time:
    one waits for all of its samples, one for all of the rest.
    """

    instances: Sequence[Instance]
    steps: Steps
    graph: Graph
    latencies_s: list[float]


def repeated(one: PreparedSteps, ahead: int, iterations: int) -> PreparedSteps:
    """Several iterations in a row, whose samples are sent ``ahead`` iterations early and whose latency is hidden.

    Samples are sent one iteration after the other; calls begin when the iteration before is done.
    """
    steps, graph = one.steps, Graph()
    samples = [k for k, step in enumerate(steps) if step.kind is Kind.DATA]
    rest = [k for k, step in enumerate(steps) if step.kind is not Kind.DATA]
    begins = {k for k in rest if all(steps[need].kind is Kind.DATA for need in steps[k].after)}
    many = len(steps) + MARKS
    for begin in range(0, iterations * many, many):
        done = begin - ahead * many - 1  # where the last iteration is done whose samples need not wait any more
        before_samples = [before for before in (begin - MARKS, done) if before >= 0]
        before_calls = [begin - 1] if begin else []
        for k, step in enumerate(steps):
            before = before_samples if step.kind is Kind.DATA else before_calls if k in begins else []
            graph.add_copy(one.graph, k, [*(begin + need for need in step.after), *before], begin)
        graph.add_transfer([begin + k for k in samples], ())
        graph.add_transfer([begin + k for k in rest], ())
    latencies_s = [0.0 if step.kind is Kind.DATA else one.latencies_s[k] for k, step in enumerate(steps)]
    return PreparedSteps(one.instances, steps, graph, [*latencies_s, *[0.0] * MARKS] * iterations)
