"""A plan as the paths that samples take, and the instance tree that they make.

A path is a source, a number of its samples, and the node of each layer. Paths that agree on the node of every layer
from some layer on run through the same instances from there on; that makes them a tree:

    phone  4×  cloud cloud cloud cloud        O1[1..1]@cloud ─┐
    phone  2×  phone cloud cloud cloud   ═▶   S [1..1]@phone ─┴▶ O2[2..3]@cloud ─┐
    phone  6×  edge  edge  edge  cloud        L [1..3]@edge ─────────────────────┴▶ O3[4..4]@cloud

Paths of different microbatches never meet: each has its own calls, so that one can transfer while another computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palmette.spec.codec import PLAIN, Codec
from palmette.spec.plan import Order, Phase
from palmette.spec.tree import Feed, Instance

Run = tuple[str, int]  # a node and the last layer that it computes


class SamplePath(NamedTuple):
    """Samples of a source and the runs of layers that they pass, in order."""

    source: str
    samples: int
    runs: tuple[Run, ...]
    microbatch: int = 0


class SearchState(NamedTuple):
    """A plan: paths, and between which nodes (from, to) outputs travel as they are, whatever the codec.

    ``meet`` is where gradients of replicas meet; None leaves that to the rule of ``cost.replicas``. ``order`` is the
    order of microbatches.
    """

    paths: tuple[SamplePath, ...]
    plain: frozenset[tuple[str, str]] = frozenset()
    meet: str | None = None
    order: Order = "fifo"

    @property
    def size(self) -> int:
        """How much there is to it: the runs of all paths."""
        return sum([len(path.runs) for path in self.paths])

    def shares_layers(self) -> bool:
        """Whether two nodes hold the same layer, so that gradients have to meet."""
        held: dict[int, str] = {}
        for path in self.paths:
            before = 0
            for node, last in path.runs:
                if any(held.setdefault(layer, node) != node for layer in range(before, last)):
                    return True
                before = last
        return False


def simplified(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Runs without empty ones, and without cuts between layers of one node."""
    kept: list[Run] = []
    for node, last in runs:
        if last <= (kept[-1][1] if kept else 0):
            continue
        if kept and kept[-1][0] == node:
            kept.pop()
        kept.append((node, last))
    return tuple(kept)


def joined(paths: Sequence[SamplePath]) -> tuple[SamplePath, ...]:
    """Paths without those that have no samples; equal ones become one."""
    samples: dict[tuple[str, tuple[Run, ...], int], int] = {}
    for path in paths:
        if path.samples:
            key = (path.source, path.runs, path.microbatch)
            samples[key] = samples.get(key, 0) + path.samples
    return tuple(SamplePath(source, many, runs, microbatch) for (source, runs, microbatch), many in samples.items())


def paths_of(phase: Phase) -> tuple[SamplePath, ...]:
    """The paths that the samples of a phase take."""
    index = {instance.id: instance for instance in phase.instances}
    paths = []
    for feed in phase.sources:
        at, runs = index[feed.into], []
        while True:
            runs.append((at.node, at.layers[1]))
            if at.into is None:
                break
            at = index[at.into]
        paths.append(SamplePath(feed.node, feed.samples, simplified(runs)))
    return joined(paths)


class PathTree(NamedTuple):
    """The instance tree that paths make, whatever their samples: its instances, and who feeds them with which paths."""

    instances: tuple[Instance, ...]
    feeds: tuple[tuple[str, str, tuple[int, ...]], ...]

    def phase(self, state: SearchState) -> Phase:
        """The phase with the samples of a state of these paths.

        Not validated: the search makes thousands, and paths always make a tree.

        All phases of a tree share their instances, so that the evaluator need not work out their order again.
        """
        sources = [
            Feed.model_construct(
                node=source, samples=sum([state.paths[k].samples for k in members]), epoch_samples=None, into=into
            )
            for source, into, members in self.feeds
        ]
        return Phase.model_construct(
            sources=tuple(sources), instances=self.instances, meet=state.meet, order=state.order
        )


def instance_tree(state: SearchState, shares: Mapping[str, float], codec: Codec) -> PathTree:
    """The instance tree that the paths of a state make."""
    return _TreeBuilder(state, shares, codec).tree()


class _TreeBuilder:
    """Builds the trees of a state from their roots to the sources."""

    def __init__(self, state: SearchState, shares: Mapping[str, float], codec: Codec) -> None:
        self._ways, self._plain, self._shares, self._codec = state.paths, state.plain, shares, codec
        self._instances: list[Instance] = []
        self._feeds: list[tuple[str, str, tuple[int, ...]]] = []

    def tree(self) -> PathTree:
        """The instances, and what feeds them."""
        roots: dict[tuple[int, str], list[tuple[int, int]]] = {}
        for k, path in enumerate(self._ways):
            roots.setdefault((path.microbatch, path.runs[-1][0]), []).append((k, len(path.runs) - 1))
        for members in roots.values():
            self._add_instance(members, self._ways[0].runs[-1][1], None, None)
        return PathTree(tuple(self._instances), tuple(self._feeds))

    def _add_instance(self, members: list[tuple[int, int]], last: int, into: str | None, into_node: str | None) -> None:
        """Add the instance that ends with ``last``, and what feeds it; members are (path, its run at that layer)."""
        paths = self._ways
        node = paths[members[0][0]].runs[members[0][1]][0]
        starts = [paths[k].runs[run - 1][1] if run else 0 for k, run in members]
        before = max(starts)
        name = f"i{len(self._instances) + 1}"
        plain = node == into_node or into_node is None or (node, into_node) in self._plain
        self._instances.append(
            Instance.model_construct(
                id=name,
                layers=(before + 1, last),
                node=node,
                cpu_share=self._shares[node],
                into=into,
                codec=PLAIN if plain else self._codec,
            )
        )
        if before == 0:
            self._feed(members, name)
            return
        feeding: dict[str, list[tuple[int, int]]] = {}
        for (k, run), start in zip(members, starts, strict=True):
            here = run - 1 if start == before else run
            feeding.setdefault(paths[k].runs[here][0], []).append((k, here))
        for group in feeding.values():
            self._add_instance(group, before, name, node)

    def _feed(self, members: list[tuple[int, int]], into: str) -> None:
        fed: dict[str, list[int]] = {}
        for k, _ in members:
            fed.setdefault(self._ways[k].source, []).append(k)
        self._feeds += [(source, into, tuple(paths)) for source, paths in fed.items()]
