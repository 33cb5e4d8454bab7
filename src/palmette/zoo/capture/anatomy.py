"""Which values of a traced graph have to be handed on, and which each part can make anew.

Two kinds are made anew wherever they are needed, so they keep no two places together: sizes that follow
from the input's shape (``x.shape[0] * 4``, measured with batches of three sizes and written as a·batch + b)
and constants made without weights and without chance (masks, positions). Weights, and whatever else has a
name in the module's state or is written to, live in one place. All other values are carried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from palmette.zoo.capture.frame import Frame, found
from palmette.zoo.capture.operations import follows_size, is_free, performed, writes

BATCHES = (2, 3, 5)


@dataclass
class Anatomy:
    """What is known about a graph's nodes: which are sizes, which are constants, what weights they use."""

    frame: Frame
    values: dict[fx.Node, list[Any]]
    shared: set[int]
    sizes: dict[fx.Node, Any] = field(default_factory=dict)
    free: set[fx.Node] = field(default_factory=set)

    def study(self, graph: fx.Graph) -> None:
        """Sort out sizes and constants, in the order of computing."""
        for node in graph.nodes:
            if node.op == "get_attr":
                if id(found(self.frame, str(node.target))) not in self.shared:
                    self.free.add(node)
            elif follows_size(node, self.sizes) and (size := affine(self.values[node])) is not None:
                self.sizes[node] = size
            elif is_free(node) and all(n in self.free or n in self.sizes for n in node.all_input_nodes):
                self.free.add(node)

    def carried(self, node: fx.Node) -> bool:
        """Whether the node's value has to be handed on from where it was computed."""
        return node.op != "get_attr" and node not in self.free and node not in self.sizes

    def batched(self, node: fx.Node) -> bool:
        """Whether the value is a tensor of floats, a row a sample."""
        return all(
            isinstance(value, Tensor) and value.is_floating_point() and value.dim() and len(value) == batch
            for value, batch in zip(self.values[node], BATCHES, strict=True)
        )

    def weights(self, node: fx.Node) -> set[int]:
        """The identities of the weights and buffers that a node uses."""
        used = {id(found(self.frame, str(n.target))) for n in node.all_input_nodes if n.op == "get_attr"}
        if node.op == "call_module":
            module = found(self.frame, str(node.target))
            used |= {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
        return used & self.shared


def affine(values: list[Any]) -> Any:
    """Sizes that were measured with ``BATCHES``, as (a, b) of a·batch + b; None where they are not so."""
    if all(isinstance(value, (tuple, list)) for value in values):
        parts = [affine(list(each)) for each in zip(*values, strict=False)]
        return None if None in parts else parts
    if not all(type(value) is int for value in values):
        return None
    slope = (values[1] - values[0]) // (BATCHES[1] - BATCHES[0])
    offset = values[0] - slope * BATCHES[0]
    fits = all(value == slope * batch + offset for value, batch in zip(values, BATCHES, strict=True))
    return (slope, offset) if fits else None


class Recorder(fx.Interpreter):
    """Runs a graph and keeps every value as it is: numbers whole, tensors without their storage."""

    def __init__(self, frame: Frame, graph: fx.Graph) -> None:
        super().__init__(frame, graph=graph)
        self.seen: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run and keep."""
        value = super().run_node(n)
        self.seen[n] = value.to("meta") if isinstance(value, Tensor) else value
        return value


def anatomy(graph: fx.Graph, frame: Frame, example: Tensor) -> Anatomy:
    """Run the graph with batches of three sizes and study it."""
    frame.eval()
    runs = []
    for batch in BATCHES:
        recorder = Recorder(frame, graph)
        repeats = -(-batch // len(example))
        with torch.no_grad():
            recorder.run(torch.cat([example] * repeats)[:batch])
        runs.append(recorder.seen)
    values = {node: [seen[node] for seen in runs] for node in graph.nodes}
    known = Anatomy(frame, values, kept_in_place(graph, frame))
    known.study(graph)
    return known


def kept_in_place(graph: fx.Graph, frame: Frame) -> set[int]:
    """The identities of the tensors that must live in one part: weights, state, all that is written to."""
    module = frame.module
    tensors = [*module.parameters(), *module.state_dict(keep_vars=True).values()]
    for node in graph.nodes:
        if writes(performed(node, frame)):
            attributes = [each for each in node.all_input_nodes if each.op == "get_attr"]
            tensors += [found(frame, str(each.target)) for each in attributes]
    return {id(tensor) for tensor in tensors}
