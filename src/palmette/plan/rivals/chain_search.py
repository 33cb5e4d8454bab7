"""The chain with the least time: a shortest path through (layer, node), where nodes update in parallel.

Without updates it is a plain shortest path. The largest of the nodes' update times is no sum over the path, so a label
carries each node's updates, and its memory. Labels leave the heap in the order of a lower bound (what the path has
cost, the shortest path to the end, the largest update so far), so the first complete one is the best: A*. A label that
another one beats in everything is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from palmette.plan.core.memory_budget import memory_budget_bytes
from palmette.plan.core.strategy import Task
from palmette.spec.codec import PLAIN

Path = tuple[int, ...]


@dataclass(frozen=True)
class _CostTables:
    """Seconds of each layer on each node, of moves between nodes after a layer, and what memory holds."""

    enter: list[float]
    """Raw data from its owner to each node, [node]."""
    computing: list[list[float]]
    """Forward and backward of the batch, [layer][node]."""
    move: list[list[list[float]]]
    """Output there and gradient back, [layer][from][to]."""
    update: list[list[float]]
    memory: list[float]
    """Bytes of a layer with its samples, [layer]."""
    memory_budget: list[float]


def chains(task: Task, owner: str, names: list[str]) -> Iterator[tuple[str, ...]]:
    """Assignments of layers to nodes, best first; those beaten in time, updates and memory are left out.

    Private data stays with its owner, and so do labels that have to. Ties go by the order of ``names``.
    """
    tables = _cost_tables(task, owner, names)
    source = task.cluster.nodes[owner].source
    everywhere, home = range(len(names)), [k for k, name in enumerate(names) if name == owner]
    starts = home if source is not None and source.private else everywhere
    ends = home if source is not None and source.keeps_labels else everywhere
    for path in _best_first(tables, starts, ends):
        yield tuple(names[k] for k in path)


def _cost_tables(task: Task, owner: str, names: list[str]) -> _CostTables:
    prices, batch, depth = task.evaluator, task.batch, len(task.profile.layers)
    sizes, copies = prices.sizes(), 1 + task.state_copies
    seconds = [prices.seconds(name) for name in names]
    shares = [task.cluster.nodes[name].limits.cpu_share for name in names]
    layers = range(1, depth + 1)

    def sending(a: str, b: str, size_bytes: float) -> float:
        return 0.0 if a == b else prices.route(a, b).transfer_s(size_bytes)

    def held(layer: int) -> float:
        return sizes.weight_bytes([(layer, layer)]) + copies * sizes.trainable_bytes([(layer, layer)])

    def there_and_back(a: str, b: str, layer: int) -> float:
        there_s = sending(a, b, sizes.message_bytes(layer, batch, PLAIN))
        return there_s + sending(b, a, sizes.gradient_message_bytes(layer, batch, PLAIN)) * sizes.has_gradient(layer)

    each = list(zip(seconds, shares, strict=True))

    def computing(layer: int) -> list[float]:
        return [(s.forward_s(layer, layer, batch) + s.backward_s(layer, layer, batch)) / share for s, share in each]

    return _CostTables(
        enter=[sending(owner, name, batch * sizes.sample_bytes(owner)) for name in names],
        computing=[computing(i) for i in layers],
        move=[[[there_and_back(a, b, i) for b in names] for a in names] for i in layers],
        update=[[s.update_s(i, i) / share for s, share in each] for i in layers],
        memory=[held(i) + sizes.activation_bytes((i, i), batch) for i in layers],
        memory_budget=memory_budget_bytes(task, names),
    )


@dataclass
class _LabelStore:
    """Labels kept at each (layer, node): cost, then updates and memory of every node."""

    kept: dict[tuple[int, int], list[tuple[float, ...]]] = field(default_factory=dict)

    def beaten(self, place: tuple[int, int], label: tuple[float, ...]) -> bool:
        """Whether a kept label is as good in everything; if not, the label is kept."""
        others = self.kept.setdefault(place, [])
        if any(all(a <= b for a, b in zip(other, label, strict=True)) for other in others):
            return True
        others.append(label)
        return False


def _best_first(n: _CostTables, starts: Sequence[int], ends: Sequence[int]) -> Iterator[Path]:
    nodes, depth = range(len(n.memory_budget)), len(n.computing)
    on = _shortest_to_end(n)
    labels = _LabelStore()
    heap: list[tuple[float, Path, float, list[float]]] = []
    for k in starts if depth > 1 else [k for k in starts if k in ends]:
        start = [0.0] * (2 * len(n.memory_budget))
        heappush(heap, (n.enter[k] + n.computing[0][k] + on[0][k] + n.update[0][k], (k,), n.enter[k], start))
    while heap:
        _, path, before, used = heappop(heap)
        layer, at = len(path), path[-1]
        cost, held = before + n.computing[layer - 1][at], list(used)
        held[at] += n.update[layer - 1][at]
        held[len(n.memory_budget) + at] += n.memory[layer - 1]
        if held[len(n.memory_budget) + at] > n.memory_budget[at] or labels.beaten((layer, at), (cost, *held)):
            continue
        if layer == depth:
            yield path
            continue
        slowest = max(held[: len(n.memory_budget)])
        for k in nodes if layer < depth - 1 else ends:
            entering = cost + n.move[layer - 1][at][k]
            updating = max(slowest, held[k] + n.update[layer][k])
            bound = entering + n.computing[layer][k] + on[layer][k] + updating
            heappush(heap, (bound, (*path, k), entering, held))


def _shortest_to_end(n: _CostTables) -> list[list[float]]:
    """The shortest path from after layer i on node k to the end, updates aside, [i-1][k]."""
    nodes, depth = range(len(n.memory_budget)), len(n.computing)
    on = [[0.0] * len(n.memory_budget) for _ in range(depth)]
    for i in range(depth - 2, -1, -1):
        then = [n.computing[i + 1][k] + on[i + 1][k] for k in nodes]
        on[i] = [min(move + rest for move, rest in zip(n.move[i][a], then, strict=True)) for a in nodes]
    return on
