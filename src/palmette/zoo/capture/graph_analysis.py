"""Which values of a traced graph must be passed on, and which each part can recompute.

Two kinds are recomputed wherever they are needed, so they never prevent a cut: sizes that follow
from the input's shape (``x.shape[0] * 4``, measured with batches of three sizes and written as a·batch + b)
and constants that need neither weights nor random numbers (masks, positions). Weights, and whatever else has a
name in the module's state or is written to, live in one place. All other values are carried from part to part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from palmette.zoo.capture.operations import call_target, is_recomputable, is_size, writes
from palmette.zoo.capture.wrapper import ModuleWrapper, attribute_at

BATCHES = (2, 3, 5)


@dataclass
class GraphAnalysis:
    """What is known about a graph's nodes: which are sizes, which are constants, what weights they use."""

    wrapper: ModuleWrapper
    values: dict[fx.Node, list[Any]]
    shared: set[int]
    sizes: dict[fx.Node, Any] = field(default_factory=dict)
    recomputable: set[fx.Node] = field(default_factory=set)

    def classify(self, graph: fx.Graph) -> None:
        """Find sizes and constants, in order of execution."""
        for node in graph.nodes:
            if node.op == "get_attr":
                if id(attribute_at(self.wrapper, str(node.target))) not in self.shared:
                    self.recomputable.add(node)
            elif is_size(node, self.sizes) and (size := fit_affine(self.values[node])) is not None:
                self.sizes[node] = size
            elif is_recomputable(node) and all(n in self.recomputable or n in self.sizes for n in node.all_input_nodes):
                self.recomputable.add(node)

    def is_carried(self, node: fx.Node) -> bool:
        """Whether the node's value must be passed on from where it was computed."""
        return node.op != "get_attr" and node not in self.recomputable and node not in self.sizes

    def is_batched(self, node: fx.Node) -> bool:
        """Whether the value is a tensor of floats with one row per sample."""
        return all(
            isinstance(value, Tensor) and value.is_floating_point() and value.dim() and len(value) == batch
            for value, batch in zip(self.values[node], BATCHES, strict=True)
        )

    def weights(self, node: fx.Node) -> set[int]:
        """The identities of the weights and buffers that a node uses."""
        used = {id(attribute_at(self.wrapper, str(n.target))) for n in node.all_input_nodes if n.op == "get_attr"}
        if node.op == "call_module":
            module = attribute_at(self.wrapper, str(node.target))
            used |= {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
        return used & self.shared


def fit_affine(values: list[Any]) -> Any:
    """Sizes that were measured with ``BATCHES``, as (a, b) of a·batch + b; None where they are not so."""
    if all(isinstance(value, (tuple, list)) for value in values):
        parts = [fit_affine(list(each)) for each in zip(*values, strict=False)]
        return None if None in parts else parts
    if not all(type(value) is int for value in values):
        return None
    slope = (values[1] - values[0]) // (BATCHES[1] - BATCHES[0])
    offset = values[0] - slope * BATCHES[0]
    fits = all(value == slope * batch + offset for value, batch in zip(values, BATCHES, strict=True))
    return (slope, offset) if fits else None


class ValueRecorder(fx.Interpreter):
    """Runs a graph and records every value; of tensors only shape and dtype."""

    def __init__(self, wrapper: ModuleWrapper, graph: fx.Graph) -> None:
        super().__init__(wrapper, graph=graph)
        self.seen: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        """Run the node and record its value."""
        value = super().run_node(n)
        self.seen[n] = value.to("meta") if isinstance(value, Tensor) else value
        return value


def analyse(graph: fx.Graph, wrapper: ModuleWrapper, example: Tensor) -> GraphAnalysis:
    """Run the graph with batches of three sizes and classify its values."""
    wrapper.eval()
    runs = []
    for batch in BATCHES:
        recorder = ValueRecorder(wrapper, graph)
        repeats = -(-batch // len(example))
        with torch.no_grad():
            recorder.run(torch.cat([example] * repeats)[:batch])
        runs.append(recorder.seen)
    values = {node: [seen[node] for seen in runs] for node in graph.nodes}
    analysis = GraphAnalysis(wrapper, values, pinned_tensors(graph, wrapper))
    analysis.classify(graph)
    return analysis


def pinned_tensors(graph: fx.Graph, wrapper: ModuleWrapper) -> set[int]:
    """The identities of the tensors that must live in one part: weights, state, all that is written to."""
    module = wrapper.module
    tensors = [*module.parameters(), *module.state_dict(keep_vars=True).values()]
    for node in graph.nodes:
        if writes(call_target(node, wrapper)):
            attributes = [each for each in node.all_input_nodes if each.op == "get_attr"]
            tensors += [attribute_at(wrapper, str(each.target)) for each in attributes]
    return {id(tensor) for tensor in tensors}
