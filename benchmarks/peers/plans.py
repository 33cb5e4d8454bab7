"""Palmette's contenders: what ``palmette plan hiertrain`` and ``palmette plan hybrid`` decide, and a three-way tree.

None of them changes the result: hybrid may not send outputs as 8-bit integers.
Where links are slow HierTrain's policy is often one node alone; the best HierTrain-like tree on which all three nodes
compute shows what a real one comes to. It is found by trying every role of every node and every two cuts with a few
shares of the samples, then all shares in eighths with the best; every node gets an eighth at the least.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, permutations
from typing import Any, NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Phase, Plan
from palmette.spec.tree import Feed, Instance


class Shape(NamedTuple):
    """Who is worker_o, worker_s and worker_l, and after which layers s and l hand over."""

    o: str
    s: str
    l: str  # noqa: E741  (the paper's name)
    m_s: int
    m_l: int


def planned(strategy: str, evaluator: Evaluator, batch: int, **options: Any) -> Plan:
    """The plan of a strategy."""
    task = Task(profile=evaluator.profile, cluster=evaluator.cluster, batch=batch)
    return make_plan(configured(strategy, options), task)


def three_way(evaluator: Evaluator, batch: int) -> Plan:
    """The fastest HierTrain-like tree in which every node computes a good part of the samples."""
    depth, nodes = len(evaluator.profile.layers), list(evaluator.cluster.nodes)

    def seconds(shape: Shape, parts: tuple[int, int, int]) -> float:
        return evaluator.price(tree(nodes[0], shape, depth, parts)).iteration_s

    shapes = (
        Shape(*row, *cuts)
        for row in permutations(nodes)
        for cuts in combinations_with_replacement(range(1, depth + 1), 2)
    )
    coarse = [*_parts(batch, 4), *(parts for parts in _parts(batch, 8) if max(parts) >= batch * 6 // 8)]
    best = min(shapes, key=lambda shape: min(seconds(shape, parts) for parts in coarse))
    parts = min(_parts(batch, 8), key=lambda parts: seconds(best, parts))
    phase = tree(nodes[0], best, depth, parts)
    return Plan(strategy="hiertrain-like", model=evaluator.profile.model, batch=batch, phases=(phase,))


def _parts(batch: int, pieces: int) -> Iterator[tuple[int, int, int]]:
    """Samples of workers o, s and l, in pieces of the batch."""
    piece = batch // pieces
    for s in range(1, pieces - 1):
        for rest in range(1, pieces - s):
            yield batch - (s + rest) * piece, s * piece, rest * piece


def tree(device: str, shape: Shape, depth: int, samples: Sequence[int]) -> Phase:
    """A shape with the samples of workers o, s and l; a branch that goes through to the end is a root of its own."""
    ends = sorted({shape.m_s, shape.m_l, depth})
    runs = zip([1, *(end + 1 for end in ends)], ends, strict=False)
    parts = [(f"O{k}", run, shape.o) for k, run in enumerate(runs, 1)]
    starts = {first: name for name, (first, _), _ in parts}
    parts += [("S", (1, shape.m_s), shape.s), ("L", (1, shape.m_l), shape.l)]
    fed = zip(("O1", "S", "L"), samples, strict=True)
    return Phase(
        sources=tuple(Feed(node=device, samples=many, into=name) for name, many in fed),
        instances=tuple(
            Instance(id=name, layers=run, node=node, into=starts.get(run[1] + 1)) for name, run, node in parts
        ),
    )


def described(phase: Phase) -> str:
    """A tree in a line."""
    fed = {source.into: source.samples for source in phase.sources}
    words = []
    for instance in phase.instances:
        samples = f" ({fed[instance.id]} samples)" if instance.id in fed else ""
        into = f" → {instance.into}" if instance.into else ""
        words.append(f"{instance.id}: {instance.layers[0]}–{instance.layers[1]} on {instance.node}{samples}{into}")
    return "; ".join(words)
