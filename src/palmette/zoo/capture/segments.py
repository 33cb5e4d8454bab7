"""A module's graph as segments between cuts, merged and named.

Small operations do not stand alone: activations, dropout, reshaping and elementwise arithmetic go
with the part before, and so does a batch norm right after a convolution or a fully connected layer.

A segment with one operation is named after its module (``features.0``), one with several after the module
around them (``layer1.0``), unless other segments lie in the same module: then after its first weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

from torch import fx

from palmette.zoo.capture.cut_places import FEWEST, MOST, CutPlace, GraphPlaces, joined_note, path
from palmette.zoo.capture.graph_analysis import GraphAnalysis
from palmette.zoo.capture.operations import is_batch_norm, is_matrix, is_small, operation
from palmette.zoo.capture.wrapper import WRAPPED_PREFIX, Untraceable


@dataclass
class GraphSegment:
    """Consecutive operations with a bundle going in and one coming out; the last has what the module ``returned``."""

    nodes: list[fx.Node]
    entry: tuple[fx.Node, ...]
    exit: tuple[fx.Node, ...]
    name: str = ""
    returned: Any = None
    note: str = ""


def find_segments(graph: fx.Graph, analysis: GraphAnalysis, *, bundles: bool = True) -> list[GraphSegment]:
    """The graph's operations between cuts, small ones merged into their neighbours, named.

    Without ``bundles``, it is cut only where exactly one tensor is alive.

    Raises:
        Untraceable: it does not return tensors that it computed.
    """
    places = graph_places(graph, analysis)
    chosen = places.narrow() if bundles else places.single()
    segments = join_small(split_graph(graph, places, chosen), analysis)
    while bundles and len(segments) < FEWEST:
        more = largest_gap_cuts(places, chosen)
        if not more:
            break
        chosen = sorted([*chosen, *more], key=lambda each: each.place)
        segments = join_small(split_graph(graph, places, chosen), analysis)
    add_notes(segments, places)
    return keep_most(segments, analysis)


def add_notes(segments: Sequence[GraphSegment], places: GraphPlaces) -> None:
    """Note why segments are not cut further that are large, or all that there are."""
    begin, few = 0, len(segments) < FEWEST
    for segment in segments:
        end = begin + len(segment.nodes)
        if few or places.is_large(begin, end):
            segment.note = places.why_whole(begin, end)
        begin = end


def keep_most(segments: list[GraphSegment], analysis: GraphAnalysis) -> list[GraphSegment]:
    """At most ``MOST`` segments: of cuts after about the same work, the one with the fewest bytes."""
    if len(segments) <= MOST:
        return segments
    done = list(accumulate(sum(map(analysis.work, segment.nodes)) for segment in segments))
    best: dict[int, tuple[int, int]] = {}
    for place, segment in enumerate(segments[:-1]):
        share = min(MOST - 2, int(done[place] / done[-1] * (MOST - 1)))
        passed_bytes = sum(map(analysis.value_bytes, segment.exit))
        best[share] = min(best.get(share, (passed_bytes, place)), (passed_bytes, place))
    ends = sorted(place for _, place in best.values())
    kept = [reduce(join_named, segments[a:b]) for a, b in pairwise([0, *(end + 1 for end in ends), len(segments)])]
    kept[0].note = "; ".join(filter(None, (joined_note(len(segments), len(kept)), kept[0].note)))
    return kept


def join_named(first: GraphSegment, second: GraphSegment) -> GraphSegment:
    """Two segments as one, with the name of the first."""
    return join(first, second, first.name)


def graph_places(graph: fx.Graph, analysis: GraphAnalysis) -> GraphPlaces:
    """The places of a graph, and what is alive at each."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    output = graph.output_node()
    nodes = [
        node
        for node in graph.nodes
        if node.op not in ("placeholder", "output") and (analysis.is_carried(node) or not node.users)
        if node.op != "get_attr" and node not in analysis.sizes and node not in analysis.recomputable
    ]
    returned = analysis.needs(output)
    if not any(node in returned for node in nodes):
        raise Untraceable("it does not return a tensor that it computed")
    return GraphPlaces(nodes, inputs, returned, analysis)


def largest_gap_cuts(places: GraphPlaces, chosen: Sequence[CutPlace]) -> list[CutPlace]:
    """The cuts inside the part with the most operations with weights that can be cut again."""
    gaps = sorted(places.gaps(chosen), key=lambda gap: -places.weighted(*gap))
    return next((found for gap in gaps if (found := places.inside(*gap))), [])


def split_graph(graph: fx.Graph, places: GraphPlaces, chosen: Sequence[CutPlace]) -> list[GraphSegment]:
    """Segments between cuts."""
    (returned,) = graph.output_node().args
    ends: list[tuple[fx.Node, ...]] = [tuple(places.inputs), *(each.alive for each in chosen), ()]
    segments = [
        GraphSegment(list(places.nodes[begin:end]), ends[k], ends[k + 1])
        for k, (begin, end) in enumerate(places.gaps(chosen))
    ]
    segments[-1].returned = returned
    return segments


def join_small(raw: list[GraphSegment], analysis: GraphAnalysis) -> list[GraphSegment]:
    """Segments with names, small ones merged into their neighbours."""
    joined: list[GraphSegment] = []
    for segment in assign_names(raw, analysis):
        if joined and is_small_segment(joined[-1], analysis):
            joined[-1] = join(joined[-1], segment, segment.name)
        elif joined and belongs_to_previous(segment, analysis):
            joined[-1] = join(joined[-1], segment, joined[-1].name)
        else:
            joined.append(segment)
    return joined


def join(first: GraphSegment, second: GraphSegment, name: str) -> GraphSegment:
    """Two segments as one."""
    nodes, note = [*first.nodes, *second.nodes], first.note or second.note
    return GraphSegment(nodes, first.entry, second.exit, name, second.returned, note)


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
        return is_matrix(segment.entry[0], analysis.wrapper)
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
