"""Every plan of a written-down space, one after the other: what hybrid's search is held against on small worlds.

Nothing here is shared with the search: parts are enumerated, their trees built layer by layer, and each is priced on
the event clock. The space (``docs/strategies.md`` says it to users):

- a plan is a list of parts: so many samples of a source, the node of each of their layers, and a microbatch;
- parts of one microbatch that agree on the nodes from some layer on share the instances from there on;
- gradients of replicas meet where the rule says, or at any node of the cluster;
- samples are delivered in the way that takes the least time, activations are kept, CPUs run at their limits.

Lists differ in their order, too, since the first root and the order of calls follow from it. Of plans that their work
alone makes worse than one that is known (``work_bound``), the clock is not asked.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.planner.work_bound import WorkBound, may_be_better
from palmette.cost.replicas import replicated_layers
from palmette.plan.core.delivery import fits, with_delivery
from palmette.plan.core.samples import samples_by_source
from palmette.plan.core.strategy import Task
from palmette.spec.goal import Quantity, value
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance

Nodes = tuple[str, ...]  # the node of each layer
_BETTER = 1 - 1e-9


class Part(NamedTuple):
    """Samples of a source that take the same way in the same microbatch."""

    source: str
    samples: int
    nodes: Nodes
    microbatch: int


class BestPlans:
    """The best value of each goal over all plans of at most so many parts, as far as it beats what is known."""

    def __init__(self, task: Task, most_parts: int, known: Mapping[Quantity, float]) -> None:
        self._task, self._bound = task, WorkBound(task)
        self.values = dict(known)
        self.phases: dict[Quantity, Phase] = {}
        self.lists = self.played = 0
        for parts in lists_of_parts(task, most_parts):
            self.lists += 1
            least = self._bound.least([(part.source, part.nodes, part.samples) for part in parts])
            if may_be_better(least, self.values.items()):
                self._play(parts)

    def _play(self, parts: Sequence[Part]) -> None:
        for phase in phases(self._task, parts):
            delivered = with_delivery(phase, self._task)
            if not fits(delivered, self._task):
                continue
            self.played += 1
            spent = self._task.evaluator.mean_iteration(self._task.evaluator.price(delivered), self._task.horizon)
            for goal, best in self.values.items():
                if value(goal, *spent) < best * _BETTER:
                    self.values[goal], self.phases[goal] = value(goal, *spent), delivered


def phases(task: Task, parts: Sequence[Part]) -> Iterator[Phase]:
    """The tree of parts, with every node where gradients may meet."""
    shares = {name: node.limits.cpu_share for name, node in task.cluster.nodes.items()}
    tree = _tree(parts, shares)
    yield tree
    runs = replicated_layers(tree, task.evaluator.routes) if _replicates(parts) else []
    by_rule = {run.place for run in runs}
    for place in shares if runs else ():
        if by_rule != {place}:  # otherwise it is the same plan
            yield tree.model_copy(update={"meet": place})


def most_parts_within(task: Task, most_lists: int, least: int) -> int:
    """The most parts with which there are at most so many lists, no fewer than ``least``."""
    batch = sum(samples_by_source(task).values())
    for parts in range(least + 1, batch + 1):
        if next(itertools.islice(lists_of_parts(task, parts), most_lists, None), None) is not None:
            return parts - 1
    return max(least, batch)


def lists_of_parts(task: Task, most_parts: int) -> Iterator[tuple[Part, ...]]:
    """All lists of at most so many parts that use every sample once."""
    samples = samples_by_source(task)
    ways = {source: list(_ways(task, source)) for source in samples}
    for many in range(len(samples), most_parts + 1):
        for owners in itertools.product(samples, repeat=many):
            if set(owners) == set(samples):
                yield from _with_samples(owners, samples, ways)


def _with_samples(owners: Nodes, samples: dict[str, int], ways: dict[str, list[Nodes]]) -> Iterator[tuple[Part, ...]]:
    """The lists whose parts are of these sources, in this order."""
    every_size = list(_sizes(owners, samples))
    for microbatches in _labels(len(owners)) if every_size else ():
        for nodes in itertools.product(*[ways[owner] for owner in owners]):
            if len(set(zip(owners, nodes, microbatches, strict=True))) == len(owners):
                for sizes in every_size:
                    yield tuple(map(Part, owners, sizes, nodes, microbatches))


def _ways(task: Task, source: str) -> Iterator[Nodes]:
    """The nodes of all layers, in every way that private data and labels allow."""
    owned = task.cluster.nodes[source].source
    assert owned is not None, "samples come from sources"
    for nodes in itertools.product(task.cluster.nodes, repeat=len(task.profile.layers)):
        stays = not owned.private or nodes[0] == source
        if stays and (not owned.keeps_labels or nodes[-1] == source):
            yield nodes


def _labels(many: int) -> Iterator[tuple[int, ...]]:
    """Microbatches of so many parts, numbered as they first occur: otherwise equal lists would occur again."""
    for labels in itertools.product(range(many), repeat=many):
        if list(dict.fromkeys(labels)) == list(range(len(set(labels)))):
            yield labels


def _sizes(owners: Nodes, samples: dict[str, int]) -> Iterator[tuple[int, ...]]:
    """Samples of each part, at least one, that add up to those of their sources."""
    ranges = [range(1, samples[owner] + 1) for owner in owners]
    for sizes in itertools.product(*ranges):
        used = dict.fromkeys(samples, 0)
        for owner, many in zip(owners, sizes, strict=True):
            used[owner] += many
        if used == samples:
            yield sizes


def _replicates(parts: Sequence[Part]) -> bool:
    """Whether two nodes hold the same layer."""
    return any(len(set(nodes)) > 1 for nodes in zip(*[part.nodes for part in parts], strict=True))


def _tree(parts: Sequence[Part], shares: dict[str, float]) -> Phase:
    """The instance tree of parts, and what feeds it."""
    layers = _LayerTree(parts, shares)
    sizes: dict[tuple[str, str], int] = {}
    for part in parts:
        ends = part.source, layers.begun[part.microbatch, part.nodes].id
        sizes[ends] = sizes.get(ends, 0) + part.samples
    sources = [Feed(node=source, samples=many, into=into) for (source, into), many in sizes.items()]
    return Phase(sources=tuple(sources), instances=tuple(layers.instances))


class _LayerTree:
    """A chain of single layers for each part, joined where parts agree from there on, then merged into instances.

    A layer's key is its microbatch and the nodes from it to the last.
    """

    def __init__(self, parts: Sequence[Part], shares: dict[str, float]) -> None:
        self._depth, self._shares = len(parts[0].nodes), shares
        self._feeders: dict[tuple[int, Nodes], dict[tuple[int, Nodes], None]] = {}
        self.instances: list[Instance] = []
        self.begun: dict[tuple[int, Nodes], Instance] = {}
        for part in parts:
            keys = [(part.microbatch, part.nodes[layer:]) for layer in range(self._depth - 1, -1, -1)]
            for key in keys:
                self._feeders.setdefault(key, {})
            for key, before in itertools.pairwise(keys):
                self._feeders[key][before] = None
        for key in [key for key in self._feeders if len(key[1]) == 1]:
            self._add(key, None)

    def _add(self, key: tuple[int, Nodes], into: str | None) -> None:
        """Add the instance that ends with a layer, as long as one way of the same node leads there, and its feeders."""
        node, last = key[1][0], self._depth - len(key[1]) + 1
        while len(self._feeders[key]) == 1 and (before := next(iter(self._feeders[key])))[1][0] == node:
            key = before
        layers = (self._depth - len(key[1]) + 1, last)
        name = f"p{len(self.instances)}"
        made = Instance(id=name, layers=layers, node=node, cpu_share=self._shares[node], into=into)
        self.instances.append(made)
        self.begun[key] = made
        for before in self._feeders[key]:
            self._add(before, name)
