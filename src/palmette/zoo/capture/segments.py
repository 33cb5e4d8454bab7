"""A module's graph, cut wherever a single tensor is alive.

A cut may be made after an operation if, of all values that must be passed on, exactly one is still
needed, and it is a tensor of floats whose first dimension is the batch. Then the part before and the part
after can run on different nodes, on different samples:

    conv ── relu ──┬── conv ── add ── relu ── fc
                   └────────────┘
    alive:  1    1      2       1     1            cuts where it is 1

Weights and buffers used in several places (tied weights) are alive from the first use to the last.

Small operations do not stand alone: activations, dropout, reshaping and elementwise arithmetic go
with the part before, and so does a batch norm right after a convolution or a fully connected layer.

A segment with one operation is named after its module (``features.0``), one with several after the module
around them (``layer1.0``), unless other segments lie in the same module: then after its first weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import fx

from palmette.zoo.capture.graph_analysis import GraphAnalysis
from palmette.zoo.capture.operations import is_batch_norm, is_matrix, is_small, operation
from palmette.zoo.capture.wrapper import WRAPPED_PREFIX, Untraceable


@dataclass
class GraphSegment:
    """Consecutive operations with one tensor going in and one coming out."""

    nodes: list[fx.Node]
    entry: fx.Node
    exit: fx.Node
    name: str = ""


def find_segments(graph: fx.Graph, analysis: GraphAnalysis) -> list[GraphSegment]:
    """The graph's operations between all possible cuts, small ones merged into their neighbours, named."""
    raw = split_graph(graph, analysis)
    joined: list[GraphSegment] = []
    for segment in assign_names(raw, analysis):
        if joined and is_small_segment(joined[-1], analysis):
            joined[-1] = join(joined[-1], segment, segment.name)
        elif joined and belongs_to_previous(segment, analysis):
            joined[-1] = join(joined[-1], segment, joined[-1].name)
        else:
            joined.append(segment)
    return joined


def split_graph(graph: fx.Graph, analysis: GraphAnalysis) -> list[GraphSegment]:
    """Segments between all points with a single tensor alive."""
    entry, *nodes, output = (node for node in graph.nodes if analysis.is_carried(node))
    final = returned_node(output)
    until = {each: place for place, node in enumerate(nodes) for each in node.all_input_nodes}
    until[final] = len(nodes)
    barred = barriers(analysis.weights(node) for node in nodes)
    built: list[GraphSegment] = []
    start, alive = 0, {entry}
    for place, node in enumerate(nodes):
        alive = {each for each in (*alive, node) if until.get(each, -1) > place}
        # Where nothing but the last cut's tensor is alive, the node only has an effect: it goes with the next.
        if len(alive) == 1 and entry not in alive and place not in barred and analysis.is_batched(*alive):
            (single,) = alive
            built.append(GraphSegment(nodes[start : place + 1], entry, single))
            start, entry = place + 1, single
    rest = GraphSegment(nodes[start:], entry, final)
    if built and final is entry:
        return [*built[:-1], join(built[-1], rest, "")]
    return [*built, rest]


def returned_node(output: fx.Node) -> fx.Node:
    """The one value that a graph returns.

    Raises:
        Untraceable: it returns something else.
    """
    value: Any = output.args[0]
    if isinstance(value, (tuple, list)) and len(value) == 1:
        value = value[0]
    if not isinstance(value, fx.Node) or value.op == "placeholder":
        raise Untraceable("it does not return one tensor that it computed")
    return value


def barriers(used: Iterable[set[int]]) -> set[int]:
    """The places after which no cut may be, given the weights used at each: one is used again later."""
    places: dict[int, list[int]] = {}
    for place, weights in enumerate(used):
        for weight in weights:
            places.setdefault(weight, []).append(place)
    return {place for each in places.values() for place in range(each[0], each[-1])}


def join(first: GraphSegment, second: GraphSegment, name: str) -> GraphSegment:
    """Two segments as one."""
    return GraphSegment([*first.nodes, *second.nodes], first.entry, second.exit, name)


def main_nodes(segment: GraphSegment) -> list[fx.Node]:
    """The nodes that compute something for others, without counters and lookups of the mode."""
    return [node for node in segment.nodes if node.users and node.all_input_nodes]


def is_small_segment(segment: GraphSegment, analysis: GraphAnalysis) -> bool:
    """Whether a segment is made of small operations without weights."""
    return all(is_small(node, analysis.wrapper) and not analysis.weights(node) for node in main_nodes(segment))


def belongs_to_previous(segment: GraphSegment, analysis: GraphAnalysis) -> bool:
    """Whether a segment belongs to the one before it."""
    nodes = main_nodes(segment)
    if len(nodes) == 1 and is_batch_norm(nodes[0], analysis.wrapper):
        return is_matrix(segment.entry, analysis.wrapper)
    return is_small_segment(segment, analysis)


def assign_names(raw: list[GraphSegment], analysis: GraphAnalysis) -> Iterator[GraphSegment]:
    """The segments with names, no two the same."""
    around = [enclosing_module(segment, analysis) for segment in raw]
    segments_in, taken = Counter(around), Counter[str]()
    for segment, outer in zip(raw, around, strict=True):
        name = (
            outer if outer and segments_in[outer] == 1 else own_name(nodes_with_weights(segment, analysis)[0], analysis)
        )
        taken[name] += 1
        segment.name = name if taken[name] == 1 else f"{name}_{taken[name]}"
        yield segment


def nodes_with_weights(segment: GraphSegment, analysis: GraphAnalysis) -> list[fx.Node]:
    """The nodes that have weights; all if none has."""
    nodes = main_nodes(segment) or segment.nodes
    return [node for node in nodes if analysis.weights(node)] or nodes


def enclosing_module(segment: GraphSegment, analysis: GraphAnalysis) -> str:
    """The path of the innermost module around a segment; its own name where it is one operation."""
    nodes = nodes_with_weights(segment, analysis)
    if len(nodes) == 1:
        return own_name(nodes[0], analysis)
    shared = []
    for steps in zip(*(path(node).split(".") for node in nodes), strict=False):
        if len(set(steps)) > 1:
            break
        shared.append(steps[0])
    return ".".join(shared)


def own_name(node: fx.Node, analysis: GraphAnalysis) -> str:
    """The path of a node's module, or of the weight that it uses itself, or its operation's name."""
    where = path(node)
    if type(analysis.wrapper.module.get_submodule(where)).__module__.startswith("torch.nn."):
        return where
    weights = [each for each in node.all_input_nodes if each.op == "get_attr" and each not in analysis.recomputable]
    if weights:
        return str(weights[0].target).removeprefix(WRAPPED_PREFIX)
    return ".".join(filter(None, (where, operation(node, analysis.wrapper))))


def path(node: fx.Node) -> str:
    """The path of the module whose forward made the node, in the traced module."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    where: str = stack[-1][0] if stack else ""
    return where.removeprefix(WRAPPED_PREFIX) if where.startswith(WRAPPED_PREFIX) else ""
