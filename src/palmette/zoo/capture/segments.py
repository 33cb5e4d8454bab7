"""A module's graph, cut wherever a single tensor is alive.

A cut may be made after an operation if, of all values that have to be handed on, exactly one is still
needed, and it is a tensor of floats whose first dimension is the batch. Then the part before and the part
after can run on different nodes, on different samples:

    conv ── relu ──┬── conv ── add ── relu ── fc
                   └────────────┘
    alive:  1    1      2       1     1            cuts where it is 1

Weights and buffers used in several places (tied weights) are alive from the first use to the last.

Small operations do not stand alone: activations, dropout, reshaping and arithmetic on single elements go
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

from palmette.zoo.capture.anatomy import Anatomy
from palmette.zoo.capture.frame import INSIDE, Untraceable
from palmette.zoo.capture.operations import is_batch_norm, is_matrix, is_small, operation


@dataclass
class Segment:
    """Consecutive operations with one tensor going in and one coming out."""

    nodes: list[fx.Node]
    entry: fx.Node
    exit: fx.Node
    name: str = ""


def segments(graph: fx.Graph, known: Anatomy) -> list[Segment]:
    """The graph's operations between all possible cuts, small ones joined to their neighbours, named."""
    raw = cut(graph, known)
    joined: list[Segment] = []
    for segment in named(raw, known):
        if joined and is_small_segment(joined[-1], known):
            joined[-1] = join(joined[-1], segment, segment.name)
        elif joined and is_folded(segment, known):
            joined[-1] = join(joined[-1], segment, joined[-1].name)
        else:
            joined.append(segment)
    return joined


def cut(graph: fx.Graph, known: Anatomy) -> list[Segment]:
    """Segments between all points with a single tensor alive."""
    entry, *nodes, output = (node for node in graph.nodes if known.carried(node))
    final = result(output)
    until = {each: place for place, node in enumerate(nodes) for each in node.all_input_nodes}
    until[final] = len(nodes)
    barred = barriers(known.weights(node) for node in nodes)
    made: list[Segment] = []
    start, alive = 0, {entry}
    for place, node in enumerate(nodes):
        alive = {each for each in (*alive, node) if until.get(each, -1) > place}
        # Where nothing but the last cut's tensor is alive, the node only has an effect: it goes with the next.
        if len(alive) == 1 and entry not in alive and place not in barred and known.batched(*alive):
            (single,) = alive
            made.append(Segment(nodes[start : place + 1], entry, single))
            start, entry = place + 1, single
    rest = Segment(nodes[start:], entry, final)
    if made and final is entry:
        return [*made[:-1], join(made[-1], rest, "")]
    return [*made, rest]


def result(output: fx.Node) -> fx.Node:
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


def join(first: Segment, second: Segment, name: str) -> Segment:
    """Two segments as one."""
    return Segment([*first.nodes, *second.nodes], first.entry, second.exit, name)


def main_nodes(segment: Segment) -> list[fx.Node]:
    """The nodes that compute something for others; without those that only count or look up the mode."""
    return [node for node in segment.nodes if node.users and node.all_input_nodes]


def is_small_segment(segment: Segment, known: Anatomy) -> bool:
    """Whether a segment is made of small operations without weights."""
    return all(is_small(node, known.frame) and not known.weights(node) for node in main_nodes(segment))


def is_folded(segment: Segment, known: Anatomy) -> bool:
    """Whether a segment belongs to the one before it."""
    nodes = main_nodes(segment)
    if len(nodes) == 1 and is_batch_norm(nodes[0], known.frame):
        return is_matrix(segment.entry, known.frame)
    return is_small_segment(segment, known)


def named(raw: list[Segment], known: Anatomy) -> Iterator[Segment]:
    """The segments with names, no two the same."""
    around = [surrounding(segment, known) for segment in raw]
    inhabitants, taken = Counter(around), Counter[str]()
    for segment, outer in zip(raw, around, strict=True):
        name = outer if outer and inhabitants[outer] == 1 else own_name(weighty(segment, known)[0], known)
        taken[name] += 1
        segment.name = name if taken[name] == 1 else f"{name}_{taken[name]}"
        yield segment


def weighty(segment: Segment, known: Anatomy) -> list[fx.Node]:
    """The nodes that have weights; all if none has."""
    nodes = main_nodes(segment) or segment.nodes
    return [node for node in nodes if known.weights(node)] or nodes


def surrounding(segment: Segment, known: Anatomy) -> str:
    """The path of the innermost module around a segment; its own name where it is one operation."""
    nodes = weighty(segment, known)
    if len(nodes) == 1:
        return own_name(nodes[0], known)
    shared = []
    for steps in zip(*(path(node).split(".") for node in nodes), strict=False):
        if len(set(steps)) > 1:
            break
        shared.append(steps[0])
    return ".".join(shared)


def own_name(node: fx.Node, known: Anatomy) -> str:
    """The path of a node's module, or of the weight that it uses itself, or its operation's name."""
    where = path(node)
    if type(known.frame.module.get_submodule(where)).__module__.startswith("torch.nn."):
        return where
    weights = [each for each in node.all_input_nodes if each.op == "get_attr" and each not in known.free]
    if weights:
        return str(weights[0].target).removeprefix(INSIDE)
    return ".".join(filter(None, (where, operation(node, known.frame))))


def path(node: fx.Node) -> str:
    """The path of the module whose forward made the node, in the traced module."""
    stack = list(node.meta.get("nn_module_stack", {}).values())
    where: str = stack[-1][0] if stack else ""
    return where.removeprefix(INSIDE) if where.startswith(INSIDE) else ""
