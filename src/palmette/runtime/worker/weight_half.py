"""A backward pass in two halves: the gradients of inputs now, those of weights later, without computing anything twice.

In the graph of a forward pass, operations that inputs flow through (●) meet the weights (w) on edges to nodes that no
input flows through (○): the transposed weight of a linear layer, or the weight itself.

    loss ─▶ ●  ─▶ ●  ─▶ input        first half: gradients of the inputs, and those that enter each ● that has a ○
            └▶ ○  └▶ ○               second half: each such ● once more, for its ○ alone; then from all ○ to the weights
               └▶ w  └▶ w

PyTorch's operations compute only the gradients that are asked for, so a matrix product or a convolution does half of
its backward in each. Where several ● share a ○ (a weight that is used as it is more than once), the one before would
flow through the one behind: the gradients of such weights are computed in the first half.

The idea is that of ``torch.distributed.pipelining`` (``stage_backward_input`` and ``stage_backward_weight``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

Edge = tuple[Node, int]
"""An output of a node: its gradient flows there."""


class Joint(NamedTuple):
    """An operation that inputs flow through, and the edges over which it gives gradients to weights alone."""

    node: Node
    targets: list[Edge]


@dataclass
class WeightHalf:
    """What is left of a backward pass: the gradients of weights, some of which are known."""

    weights: Sequence[Tensor]
    known: dict[Node, Tensor]
    entering: list[tuple[Joint, dict[int, Tensor]]]

    def gradients(self) -> list[Tensor]:
        """The gradients of all weights, zeros where nothing flows back; can be asked for once."""
        ends = [get_gradient_edge(weight).node for weight in self.weights]
        reached = self._through_joints()
        found = self.known | {node: each for (node, _), each in reached.items() if node in ends}
        rest = {edge: each for edge, each in reached.items() if edge[0] not in found}
        left = [weight for weight, end in zip(self.weights, ends, strict=True) if end not in found]
        for weight, each in zip(left, _flowed(rest, left), strict=True):
            if each is not None:
                found[get_gradient_edge(weight).node] = each
        self.entering.clear()
        return [
            torch.zeros_like(w) if end not in found else found[end] for w, end in zip(self.weights, ends, strict=True)
        ]

    def _through_joints(self) -> dict[Edge, Tensor]:
        """The gradients that each joint gives over its edges."""
        return {edge: each for joint, entering in self.entering for edge, each in _through(joint, entering).items()}


def _through(joint: Joint, entering: Mapping[int, Tensor]) -> dict[Edge, Tensor]:
    """The gradients that a joint gives over its edges, given those that enter it."""
    given = {(joint.node, number): gradient for number, gradient in entering.items()}
    found = _flowed(given, [GradientEdge(*edge) for edge in joint.targets])
    return {edge: each for edge, each in zip(joint.targets, found, strict=True) if each is not None}


def input_half(
    outputs: Sequence[Tensor], gradients: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor]
) -> tuple[list[Tensor], WeightHalf]:
    """The gradients of inputs, given those of the outputs, zeros where nothing flows back; and the rest."""
    pairs = [(x, g.to(x.device, x.dtype)) for x, g in zip(outputs, gradients, strict=True) if x.requires_grad]
    graph = _Graph([get_gradient_edge(x) for x, _ in pairs])
    joints, direct = graph.divided(inputs, weights)
    edges = [(joint, number) for joint in joints for number in sorted(graph.entered[joint.node])]
    leaves = [get_gradient_edge(each) for each in (*inputs, *direct)]
    asked = [*leaves, *(GradientEdge(joint.node, number) for joint, number in edges)]
    found: Sequence[Tensor | None] = [None] * len(asked)
    if pairs and asked:
        ends, starts = zip(*pairs, strict=True)
        found = torch.autograd.grad(ends, asked, starts, retain_graph=True, allow_unused=True)
    passed, own = found[: len(inputs)], found[len(inputs) : len(inputs) + len(direct)]
    entering: dict[Node, dict[int, Tensor]] = {joint.node: {} for joint in joints}
    for (joint, number), gradient in zip(edges, found[len(inputs) + len(direct) :], strict=True):
        if gradient is not None:
            entering[joint.node][number] = gradient
    known = {get_gradient_edge(w).node: g for w, g in zip(direct, own, strict=True) if g is not None}
    rest = [(joint, entering[joint.node]) for joint in joints if entering[joint.node]]
    whole = [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, passed, strict=True)]
    return whole, WeightHalf(weights, known, rest)


def _flowed(given: Mapping[Edge, Tensor], wanted: Sequence[Tensor] | Sequence[GradientEdge]) -> Sequence[Tensor | None]:
    """The gradients of what is wanted, given those of some edges."""
    if not given or not wanted:
        return [None] * len(wanted)
    edges = [GradientEdge(*edge) for edge in given]
    return torch.autograd.grad(edges, wanted, list(given.values()), allow_unused=True)


class _Graph:
    """The nodes that some outputs reach: which come before each, and which of their outputs are used."""

    def __init__(self, roots: Iterable[GradientEdge]) -> None:
        self._roots = {edge.node for edge in roots}
        self._before: dict[Node, set[Node]] = {node: set() for node in self._roots}
        self.entered: dict[Node, set[int]] = {}
        for edge in roots:
            self.entered.setdefault(edge.node, set()).add(edge.output_nr)
        waiting = list(self._roots)
        while waiting:
            node = waiting.pop()
            for following, number in node.next_functions:
                if following is None:
                    continue
                if following not in self._before:
                    self._before[following] = set()
                    waiting.append(following)
                self._before[following].add(node)
                self.entered.setdefault(following, set()).add(number)

    def divided(self, inputs: Sequence[Tensor], weights: Sequence[Tensor]) -> tuple[list[Joint], list[Tensor]]:
        """The joints, and the weights whose gradients have to be computed with those of the inputs."""
        flowing = self._upward(get_gradient_edge(each).node for each in inputs)
        ends = {get_gradient_edge(each).node: each for each in weights}
        learning = self._upward(ends) - flowing
        joints = [Joint(node, targets) for node in flowing if (targets := _targets(node, learning))]
        shared = {edge[0] for joint in joints for edge in joint.targets if len(self._before[edge[0]]) > 1}
        below = _downward(shared | (self._roots & learning))
        alone = [Joint(node, [edge for edge in targets if edge[0] not in shared]) for node, targets in joints]
        return [joint for joint in alone if joint.targets], [each for node, each in ends.items() if node in below]

    def _upward(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes of the graph from which one reaches some of these, which are among them."""
        found = {node for node in nodes if node in self._before}
        waiting = list(found)
        while waiting:
            for before in self._before[waiting.pop()] - found:
                found.add(before)
                waiting.append(before)
        return found


def _targets(node: Node, learning: Collection[Node]) -> list[Edge]:
    """The edges of a node to some others, each once."""
    return list(dict.fromkeys((to, number) for to, number in node.next_functions if to is not None and to in learning))


def _downward(nodes: Iterable[Node]) -> set[Node]:
    """These nodes and all that they reach."""
    found = set(nodes)
    waiting = list(found)
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None and following not in found:
                found.add(following)
                waiting.append(following)
    return found
