"""Which values of a traced graph must be passed on, and which each part can recompute.

Three kinds are recomputed wherever they are needed, so they never prevent a cut: sizes that follow from the inputs'
shapes (``x.shape[0] * 4``, written as ``sizes`` says), constants that need neither weights nor random numbers (masks,
positions), and values that follow from the network's inputs alone, where these are no larger than the value (a mask of
all pairs of tokens, from one of tokens). Weights, and whatever else has a name in the module's state or is written to,
live in one place. All other values are carried from part to part, each with one row per sample; one that is the same
for all samples (a bias made of weights) is repeated for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from palmette.zoo.capture.bundle import ModuleInput
from palmette.zoo.capture.operations import call_target, is_recomputable, is_size, operation_name, writes
from palmette.zoo.capture.sizes import BATCHES, TrialRun, fit_size, trial_runs
from palmette.zoo.capture.wrapper import ModuleWrapper, attribute_at


@dataclass
class GraphAnalysis:
    """What is known about a graph's nodes: which are sizes, which are constants, what weights they use."""

    wrapper: ModuleWrapper
    values: dict[fx.Node, list[Any]]
    shared: set[int]
    parameters: dict[int, int]
    """The number of elements of each of the module's parameters, by its identity."""
    matrices: set[int]
    runs: list[TrialRun]
    sizes: dict[fx.Node, Any] = field(default_factory=dict)
    recomputable: set[fx.Node] = field(default_factory=set)
    from_inputs: dict[fx.Node, frozenset[fx.Node]] = field(default_factory=dict)
    """Values that follow from inputs alone, with these inputs; of them, those to carry are in ``carried``."""
    carried: set[fx.Node] = field(default_factory=set)

    def classify(self, graph: fx.Graph) -> None:
        """Find sizes, constants and what follows from inputs, in order of execution."""
        written = {undetached(each) for node in graph.nodes for each in self.written_by(node)}
        for node in graph.nodes:
            if node.op == "get_attr":
                if id(attribute_at(self.wrapper, str(node.target))) not in self.shared:
                    self.recomputable.add(node)
            elif node.op == "placeholder":
                self.from_inputs[node] = frozenset([node])
            elif is_size(node, self.sizes) and self._is_function_of_inputs(self.values[node]):
                self.sizes[node] = self.values[node]
            elif node not in written and is_recomputable(node, self.wrapper):
                self._classify_recomputable(node)
        self.carried = {node for node in self.from_inputs if self.is_smaller_than_inputs(node)}

    def _is_function_of_inputs(self, values: list[Any]) -> bool:
        """Whether a size, or all of several, follow from how many samples there are and how long they are."""
        if all(isinstance(value, (tuple, list)) for value in values):
            return all(self._is_function_of_inputs(list(each)) for each in zip(*values, strict=False))
        if not all(type(value) is int for value in values):
            return False
        lengths = [(number, [run.lengths[number] for run in self.runs]) for number in self.runs[0].lengths]
        return fit_size(values, self.samples, lengths) is not None

    @property
    def samples(self) -> list[int]:
        """How many samples each run has."""
        return [run.samples for run in self.runs]

    def written_by(self, node: fx.Node) -> list[fx.Node]:
        """The value that a node writes to."""
        return node.all_input_nodes[:1] if writes(call_target(node, self.wrapper)) else []

    def _classify_recomputable(self, node: fx.Node) -> None:
        needed = [each for each in node.all_input_nodes if each not in self.sizes and each not in self.recomputable]
        if not needed:
            self.recomputable.add(node)
        elif all(each in self.from_inputs for each in needed):
            self.from_inputs[node] = frozenset().union(*(self.from_inputs[each] for each in needed))

    def is_smaller_than_inputs(self, node: fx.Node) -> bool:
        """Whether a value that follows from inputs takes fewer bytes than they; an input itself is carried, too."""
        inputs = self.from_inputs[node]
        return node in inputs or (
            self.is_tensor(node) and self.value_bytes(node) < sum(self.value_bytes(each) for each in inputs)
        )

    def is_carried(self, node: fx.Node) -> bool:
        """Whether the node's value must be passed on from where it was computed."""
        if node in self.from_inputs:
            return node in self.carried
        return node.op != "get_attr" and node not in self.recomputable and node not in self.sizes

    def is_context(self, node: fx.Node) -> bool:
        """Whether the value follows from inputs alone."""
        return node in self.from_inputs

    def needs(self, node: fx.Node) -> set[fx.Node]:
        """The carried values that a node needs, by itself or to recompute what it needs."""
        found: set[fx.Node] = set()
        todo = list(node.all_input_nodes)
        while todo:
            each = todo.pop()
            if self.is_carried(each):
                found.add(each)
            elif each not in self.sizes and each.op != "get_attr":
                todo += each.all_input_nodes
        return found

    def is_tensor(self, node: fx.Node) -> bool:
        """Whether the value is a tensor."""
        return all(isinstance(value, Tensor) for value in self.values[node])

    def is_batched(self, node: fx.Node) -> bool:
        """Whether the value is a tensor with one row per sample."""
        pairs = zip(self.values[node], self.samples, strict=True)
        return self.is_tensor(node) and all(value.dim() and len(value) == batch for value, batch in pairs)

    def is_same_for_all(self, node: fx.Node) -> bool:
        """Whether the value is a tensor whose shape does not depend on the number of samples."""
        return self.is_tensor(node) and len({value.shape for value in self.values[node][: len(BATCHES)]}) == 1

    def is_float(self, node: fx.Node) -> bool:
        """Whether the value is a tensor of floats."""
        return self.is_tensor(node) and bool(self.values[node][0].is_floating_point())

    def is_complex(self, node: fx.Node) -> bool:
        """Whether the value is a tensor of complex numbers."""
        return self.is_tensor(node) and bool(self.values[node][0].is_complex())

    def row(self, node: fx.Node) -> Tensor:
        """What is passed on of a value for one sample, on torch's meta device."""
        value: Tensor = self.values[node][0]
        return value[0] if self.is_batched(node) else value

    def value_bytes(self, node: fx.Node) -> int:
        """Bytes of a value that are passed on for one sample."""
        row = self.row(node)
        return row.numel() * row.element_size()

    def weights(self, node: fx.Node) -> set[int]:
        """The identities of the weights and buffers that a node uses."""
        used = {id(attribute_at(self.wrapper, str(n.target))) for n in node.all_input_nodes if n.op == "get_attr"}
        if node.op == "call_module":
            module = attribute_at(self.wrapper, str(node.target))
            used |= {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
        return used & self.shared

    def work(self, node: fx.Node) -> int:
        """A measure of what a node has to do: the elements of its weights, and of its value for one sample."""
        weights = sum(self.parameters.get(each, 0) for each in self.weights(node))
        return weights + (self.row(node).numel() if self.is_tensor(node) else 0)

    def has_matrix(self, node: fx.Node) -> bool:
        """Whether a node uses a weight of two dimensions or more."""
        return self.matrix_count(node) > 0

    def matrix_count(self, node: fx.Node) -> int:
        """How many weights of two dimensions or more a node uses."""
        return len(self.weights(node) & self.matrices)


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


def analyse(graph: fx.Graph, wrapper: ModuleWrapper, example: ModuleInput) -> GraphAnalysis:
    """Run the graph with batches of several sizes and classify its values."""
    wrapper.eval()
    runs, found = trial_runs(example), []
    for run in runs:
        recorder = ValueRecorder(wrapper, graph)
        with torch.no_grad():
            recorder.run(*run.inputs)
        found.append(recorder.seen)
    values = {node: [seen[node] for seen in found] for node in graph.nodes}
    weights = list(wrapper.module.parameters())
    matrices = {id(weight) for weight in weights if weight.dim() > 1}
    elements = {id(weight): weight.numel() for weight in weights}
    analysis = GraphAnalysis(wrapper, values, pinned_tensors(graph, wrapper), elements, matrices, runs)
    analysis.classify(graph)
    return analysis


def pinned_tensors(graph: fx.Graph, wrapper: ModuleWrapper) -> set[int]:
    """The identities of the tensors that must live in one part: weights, state, all that is written to."""
    module = wrapper.module
    tensors = [*module.parameters(), *module.state_dict(keep_vars=True).values()]
    for node in graph.nodes:
        if writes(call_target(node, wrapper)):
            attributes = [each for each in map(undetached, node.all_input_nodes) if each.op == "get_attr"]
            tensors += [attribute_at(wrapper, str(each.target)) for each in attributes]
    return {id(tensor) for tensor in tensors}


def undetached(node: fx.Node) -> fx.Node:
    """The value whose memory a detached one shares."""
    while node.op == "call_function" and operation_name(node.target) == "detach":
        node = node.all_input_nodes[0]
    return node
