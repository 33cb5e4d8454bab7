"""Where a graph is cut: everywhere that one tensor is alive, and elsewhere only where that leaves too little choice.

A cut may be made after an operation if all values that must be passed on have one row per sample, or are the same for
all, and one of them is a tensor of floats that the part before has computed:

    conv ── relu ──┬── conv ── add ── relu ── fc
                   └────────────┘
    alive:  1    1      2       1     1            cuts where it is 1

Integers that follow from the network's inputs alone (a mask) are passed on, too, and do not count. A part between two
such cuts is cut again where the fewest tensors are alive inside it, and so on, if it has more than ``MANY`` operations
with matrices of weights, or more than ``LARGE`` and ``LARGE_SHARE`` of all (the decoder of a U-Net, or of T5). So is
the largest part of a network of fewer than ``FEWEST``. That depends on no widths, so that a pruned network has the
same layers. Of more than ``MOST`` parts, neighbours are joined where the most bytes pass between them. A module
without parts whose weights are vectors (a normalisation) is never cut inside.

Buffers used in several places are alive from the first use to the last. A weight used in several places is in several
layers (see ``layer``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import fx, nn

from palmette.zoo.capture.graph_analysis import GraphAnalysis, undetached
from palmette.zoo.capture.operations import operation
from palmette.zoo.capture.wrapper import WRAPPED_PREFIX

# Attention with adapters on all of its matrices has 12.
MANY = 12
LARGE = 2
LARGE_SHARE = 0.4
FEWEST = 4
MOST = 64


@dataclass(frozen=True)
class CutPlace:
    """A place where a graph may be cut: the values that are passed on, and how many of them count."""

    place: int
    alive: tuple[fx.Node, ...]
    width: int
    passed_bytes: int


class GraphPlaces:
    """The operations of a graph in order, what is alive after each, and where it may be cut."""

    def __init__(
        self, nodes: Sequence[fx.Node], inputs: Sequence[fx.Node], outputs: Iterable[fx.Node], analysis: GraphAnalysis
    ) -> None:
        self.nodes, self.inputs, self.analysis = nodes, inputs, analysis
        self.until = {each: place for place, node in enumerate(nodes) for each in analysis.needs(node)}
        self.until |= dict.fromkeys(outputs, len(nodes))
        self.barred = barriers(analysis.weights(node) - analysis.parameters.keys() for node in nodes)
        self._weighted = [0]
        for node in nodes:
            self._weighted.append(self._weighted[-1] + analysis.has_matrix(node))
        self.candidates = self._candidates()

    def weighted(self, begin: int, end: int) -> int:
        """How many operations from ``begin`` up to ``end`` have matrices of weights."""
        return self._weighted[end] - self._weighted[begin]

    def is_large(self, begin: int, end: int) -> bool:
        """Whether a part should be cut again."""
        weighted = self.weighted(begin, end)
        return weighted > MANY or weighted > max(LARGE, LARGE_SHARE * self._weighted[-1])

    def alive(self, place: int) -> list[fx.Node]:
        """The values that are computed up to a place and needed after it."""
        before = [*self.inputs, *self.nodes[: place + 1]]
        return [each for each in before if self.until.get(each, -1) > place]

    def blocking(self, place: int) -> list[fx.Node]:
        """The values alive after a place that cannot be passed on."""
        return list(filter(self._blocks, self.alive(place)))

    def _blocks(self, node: fx.Node) -> bool:
        """Whether a value cannot be passed on: it has no row per sample nor is one for all, is complex, or a weight."""
        passes = self.analysis.is_batched(node) or self.analysis.is_same_for_all(node)
        return not passes or self.analysis.is_complex(node) or undetached(node).op == "get_attr"

    def _candidates(self) -> list[CutPlace]:
        found: list[CutPlace] = []
        alive = list(self.inputs)
        before: set[fx.Node] = set()
        for place, node in enumerate(self.nodes[:-1]):
            alive = [each for each in (*alive, node) if self.until.get(each, -1) > place]
            computed = {each for each in alive if not self.analysis.is_context(each)}
            # Where nothing new is alive, the node only has an effect: it goes with the next.
            if computed != before and self._may_cut(place) and self._passes(alive):
                found.append(self._place(place, alive))
                before = computed
        return found

    def _may_cut(self, place: int) -> bool:
        """Whether neither a weight nor a normalisation reaches over a place."""
        inside = path(self.nodes[place])
        whole = inside == path(self.nodes[place + 1]) and is_normalisation(self.analysis.wrapper.module, inside)
        return place not in self.barred and not whole

    def _passes(self, alive: Sequence[fx.Node]) -> bool:
        """Whether these values can be passed on."""
        known = self.analysis
        computed = [each for each in alive if known.is_batched(each) and not known.is_context(each)]
        return any(known.is_float(each) for each in computed) and not any(map(self._blocks, alive))

    def _place(self, place: int, alive: Sequence[fx.Node]) -> CutPlace:
        # A batched tensor of floats comes first: from it the next part knows the number of samples.
        first = [each for each in alive if self.analysis.is_batched(each) and not self.analysis.is_context(each)]
        ordered = (*first, *(each for each in alive if each not in first))
        width = sum(not self._is_free(each) for each in alive)
        return CutPlace(place, ordered, width, sum(map(self.analysis.value_bytes, alive)))

    def _is_free(self, node: fx.Node) -> bool:
        """Whether a value does not count: integers that follow from inputs alone, as masks do."""
        return self.analysis.is_context(node) and not self.analysis.is_float(node)

    def narrow(self) -> list[CutPlace]:
        """The cuts where one tensor is alive, and those that divide large parts."""
        chosen = [each for each in self.candidates if each.width == 1]
        while more := [
            each for begin, end in self.gaps(chosen) if self.is_large(begin, end) for each in self.inside(begin, end)
        ]:
            chosen = sorted([*chosen, *more], key=lambda each: each.place)
        return chosen

    def single(self) -> list[CutPlace]:
        """The cuts where exactly one tensor is alive."""
        return [each for each in self.candidates if len(each.alive) == 1 and self.analysis.is_batched(each.alive[0])]

    def gaps(self, chosen: Sequence[CutPlace]) -> list[tuple[int, int]]:
        """From where to where the parts between cuts go."""
        ends = [each.place + 1 for each in chosen]
        return list(zip([0, *ends], [*ends, len(self.nodes)], strict=True))

    def inside(self, begin: int, end: int) -> list[CutPlace]:
        """The cuts inside a part with the fewest tensors alive, among those with matrices before and after them."""
        found = [
            each
            for each in self.candidates
            if begin <= each.place < end - 1
            and self.weighted(begin, each.place + 1)
            and self.weighted(each.place + 1, end)
        ]
        least = min((each.width for each in found), default=0)
        return [each for each in found if each.width == least]

    def why_whole(self, begin: int, end: int) -> str:
        """Why a part cannot be cut where it has matrices before and after; empty if it can, or has one alone."""
        inside = [
            place
            for place in range(begin, end - 1)
            if self.weighted(begin, place + 1) and self.weighted(place + 1, end)
        ]
        if not inside:
            return self._why_one_operation(begin, end)
        if {each.place for each in self.candidates} & set(inside):
            return ""
        blocking = Counter(node for place in inside for node in self.blocking(place))
        if blocking:
            node = max(blocking, key=lambda each: blocking[each])
            kind = "has complex numbers" if self.analysis.is_complex(node) else "has no row for each sample"
            return f"{self._described(node)} {kind}, and is needed from one end to the other"
        return "its parts use a buffer together" if set(inside) <= self.barred else "no tensor is passed on inside it"

    def _why_one_operation(self, begin: int, end: int) -> str:
        """That one operation has several matrices, as a recurrent network has; empty where each has one at most."""
        for node in self.nodes[begin:end]:
            if self.analysis.matrix_count(node) > 1:
                kind = type(self.analysis.wrapper.module.get_submodule(path(node))).__name__
                return f"{kind} is one operation with all of its weights"
        return ""

    def _described(self, node: fx.Node) -> str:
        return ".".join(filter(None, (path(node), operation(node, self.analysis.wrapper))))


def joined_note(found: int, kept: int) -> str:
    """What a user is told where neighbouring layers were joined."""
    return f"{found} layers were found, and joined to {kept} where the fewest bytes pass"


def path(node: fx.Node) -> str:
    """The path of the module whose forward made the node, in the traced module."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    where: str = stack[-1][0] if stack else ""
    return where.removeprefix(WRAPPED_PREFIX) if where.startswith(WRAPPED_PREFIX) else ""


def is_normalisation(root: nn.Module, where: str) -> bool:
    """Whether the module at a path has no parts, and weights that are vectors."""
    module = root.get_submodule(where)
    weights = list(module.parameters())
    return bool(where and weights) and not list(module.children()) and all(each.dim() < 2 for each in weights)


def barriers(used: Iterable[set[int]]) -> set[int]:
    """The places after which no cut may be, given the weights used at each: one is used again later."""
    places: dict[int, list[int]] = {}
    for place, weights in enumerate(used):
        for weight in weights:
            places.setdefault(weight, []).append(place)
    return {place for each in places.values() for place in range(each[0], each[-1])}
