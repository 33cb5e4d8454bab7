# ruff: noqa: SLF001 (nn.Module has no public door to its dictionaries)
"""A segment of a graph as a module of its own, with the weights under their original names."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import torch
from torch import fx, nn
from torch._ops import OpOverload

from palmette.zoo.capture.graph_analysis import GraphAnalysis
from palmette.zoo.capture.modes import OperationModule
from palmette.zoo.capture.segments import GraphSegment
from palmette.zoo.capture.sizes import fit_size
from palmette.zoo.capture.wrapper import WRAPPED_PREFIX, Untraceable


def build_module(segment: GraphSegment, analysis: GraphAnalysis) -> fx.GraphModule:
    """The segment as a module that takes and returns a bundle and shares the original's weights."""
    writer = GraphWriter(segment, analysis)
    for node in segment.nodes:
        writer.built[node] = writer.copy(node)
    writer.graph.output(writer.output(segment))
    module = fx.GraphModule(analysis.wrapper, writer.graph, class_name="Layer")
    keep_persistence(module, analysis.wrapper.module)
    return module


class GraphWriter:
    """Writes a segment's graph: its operations, and the sizes and constants that they need."""

    def __init__(self, segment: GraphSegment, analysis: GraphAnalysis) -> None:
        self.analysis = analysis
        self.graph = fx.Graph()
        names = ["x"] if len(segment.entry) == 1 else [f"x{place}" for place in range(len(segment.entry))]
        taken = [self.graph.placeholder(name) for name in names]
        self.entry, self.taken = taken[0], segment.entry
        self.built: dict[fx.Node, Any] = {}
        for node, value in zip(segment.entry, taken, strict=True):
            batched = analysis.is_batched(node)
            self.built[node] = value if batched else self.graph.call_method("select", (value, 0, 0))

    def output(self, segment: GraphSegment) -> Any:
        """What the segment returns: the module's own output, or one tensor or several for the next segment."""
        if segment.returned is not None:
            return fx.map_arg(segment.returned, self.value)
        given = tuple(self.repeated(node) for node in segment.exit)
        return given if len(given) > 1 else given[0]

    def repeated(self, node: fx.Node) -> Any:
        """A value with one row per sample; one that is the same for all is repeated."""
        value = self.value(node)
        if self.analysis.is_batched(node):
            return value
        kept = [-1] * self.analysis.row(node).dim()
        return self.graph.call_method("expand", (value, self.samples(), *kept))

    def copy(self, node: fx.Node) -> fx.Node:
        """The node in the new graph, with the name that its target has in the original module."""
        copied = self.graph.node_copy(node, self.value)
        copied.meta = {}
        if node.op in ("get_attr", "call_module"):
            copied.target = str(node.target).removeprefix(WRAPPED_PREFIX)
        elif isinstance(node.target, OpOverload) and not _is_dispatched(copied):
            name = f"_operation_{node.name}"
            self.analysis.wrapper.add_module(name, OperationModule(node.target))
            copied.op, copied.target = "call_module", name
        return copied

    def value(self, node: fx.Node) -> Any:
        """The node's value in the new graph."""
        if node not in self.built:
            sizes = self.analysis.sizes
            self.built[node] = self.size(sizes[node]) if node in sizes else self.copy(node)
        return self.built[node]

    def samples(self) -> fx.Node:
        """The number of samples."""
        return self.graph.call_method("size", (self.entry, 0))

    def size(self, values: Sequence[Any]) -> Any:
        """A size, or several, that were measured, as numbers or as functions of what enters the segment.

        Raises:
            Untraceable: it depends on a length that nothing here has.
        """
        if isinstance(values[0], tuple | list):
            return tuple(self.size(each) for each in zip(*values, strict=True))
        found = fit_size(values, self.analysis.samples, self._lengths())
        if found is None:
            raise Untraceable("a part needs a length that does not reach it")
        total: Any = found.constant
        for many, which in ((found.samples, [None]), (found.length, [found.which]), (found.both, [None, found.which])):
            if many:
                total = self._added(total, many, [self._measured(each) for each in which])
        return total

    def _lengths(self) -> Iterator[tuple[tuple[fx.Node, int], list[int]]]:
        """The axes of what enters the segment that vary, and how long they were."""
        for node in self.taken:
            shapes = [tuple(value.shape) for value in self.analysis.values[node]]
            first = 1 if self.analysis.is_batched(node) else 0
            for axis in range(first, len(shapes[0])):
                measured = [shape[axis] for shape in shapes]
                if len(set(measured)) > 1:
                    yield (node, axis), measured

    def _measured(self, which: tuple[fx.Node, int] | None) -> fx.Node:
        """The number of samples, or how long an axis is."""
        return self.samples() if which is None else self.graph.call_method("size", (self.built[which[0]], which[1]))

    def _added(self, total: Any, many: int, factors: Sequence[fx.Node]) -> Any:
        """A total, and so many times the product of factors."""
        product: Any = reduce(lambda a, b: self.graph.call_function(operator.mul, (a, b)), factors)
        product = product if many == 1 else self.graph.call_function(operator.mul, (product, many))
        return product if total == 0 else self.graph.call_function(operator.add, (product, total))


def _is_dispatched(node: fx.Node) -> bool:
    """Whether an operation of an exported graph can be traced again, as unpickling does: not by sizes in a list."""
    given = (*node.args, *node.kwargs.values())
    return not node.all_input_nodes or any(isinstance(each, fx.Node) for each in given)


def keep_persistence(module: nn.Module, original: nn.Module) -> None:
    """Keep out of the state whatever is not in the original's: constants, non-persistent buffers."""
    state = original.state_dict(keep_vars=True)
    for path, inner in module.named_modules():
        for name in inner._buffers:
            if ".".join(filter(None, (path, name))) not in state:
                inner._non_persistent_buffers_set.add(name)


def clone_input(module: fx.GraphModule, place: int) -> None:
    """Let the module work on a copy of one of its inputs, since it writes to it."""
    entry = [node for node in module.graph.nodes if node.op == "placeholder"][place]
    with module.graph.inserting_after(entry):
        copied = module.graph.call_method("clone", (entry,))
    entry.replace_all_uses_with(copied, delete_user_cb=lambda user: user is not copied)
    module.recompile()


def assign_missing_state(modules: list[nn.Module], original: nn.Module) -> None:
    """Add each state name that no module has: to the module with its tied weight, else to the last."""
    states = [module.state_dict(keep_vars=True) for module in modules]
    housed = set().union(*states)
    for name, tensor in original.state_dict(keep_vars=True).items():
        if name not in housed and isinstance(tensor, torch.Tensor):
            twins = (i for i, state in enumerate(states) if any(tensor is other for other in state.values()))
            register_at(modules[next(twins, -1)], name, tensor)


def register_at(module: nn.Module, name: str, tensor: torch.Tensor) -> None:
    """Register a weight or buffer at a dotted path, with plain modules on the way."""
    *path, leaf = name.split(".")
    for step in path:
        if step not in module._modules:
            module.add_module(step, nn.Module())
        module = module.get_submodule(step)
    if isinstance(tensor, nn.Parameter):
        module.register_parameter(leaf, tensor)
    else:
        module.register_buffer(leaf, tensor)
