# ruff: noqa: SLF001 (nn.Module has no public door to its dictionaries)
"""A segment of a graph as a module of its own, with the weights under their original names."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from palmette.zoo.capture.anatomy import Anatomy
from palmette.zoo.capture.frame import INSIDE
from palmette.zoo.capture.segments import Segment


def assemble(segment: Segment, known: Anatomy) -> fx.GraphModule:
    """The segment as a module that takes and returns one tensor and shares the original's weights."""
    writer = Writer(segment, known)
    for node in segment.nodes:
        writer.made[node] = writer.copy(node)
    writer.graph.output(writer.made[segment.exit])
    module = fx.GraphModule(known.frame, writer.graph, class_name="Layer")
    keep_persistence(module, known.frame.module)
    return module


class Writer:
    """Writes a segment's graph: its operations, and anew the sizes and constants that they need."""

    def __init__(self, segment: Segment, known: Anatomy) -> None:
        self.known = known
        self.graph = fx.Graph()
        self.entry = self.graph.placeholder("x")
        self.made: dict[fx.Node, Any] = {segment.entry: self.entry}

    def copy(self, node: fx.Node) -> fx.Node:
        """The node in the new graph, with the name that its target has in the original module."""
        copied = self.graph.node_copy(node, self.value)
        copied.meta = {}
        if node.op in ("get_attr", "call_module"):
            copied.target = str(node.target).removeprefix(INSIDE)
        return copied

    def value(self, node: fx.Node) -> Any:
        """What stands for the node in the new graph."""
        if node not in self.made:
            sizes = self.known.sizes
            self.made[node] = self.size(sizes[node]) if node in sizes else self.copy(node)
        return self.made[node]

    def size(self, known: Any) -> Any:
        """A size, or several, as numbers or as what follows from the number of samples."""
        if isinstance(known, list):
            return tuple(self.size(each) for each in known)
        slope, offset = known
        if slope == 0:
            return offset
        batch = self.graph.call_method("size", (self.entry, 0))
        scaled = batch if slope == 1 else self.graph.call_function(operator.mul, (batch, slope))
        return self.graph.call_function(operator.add, (scaled, offset)) if offset else scaled


def keep_persistence(module: nn.Module, original: nn.Module) -> None:
    """Take out of the state whatever is not in the original's: constants, buffers that are not persistent."""
    state = original.state_dict(keep_vars=True)
    for path, inner in module.named_modules():
        for name in inner._buffers:
            if ".".join(filter(None, (path, name))) not in state:
                inner._non_persistent_buffers_set.add(name)


def own_input(module: fx.GraphModule) -> None:
    """Let the module work on a copy of its input, which it would write to."""
    entry = next(iter(module.graph.nodes))
    with module.graph.inserting_after(entry):
        copied = module.graph.call_method("clone", (entry,))
    entry.replace_all_uses_with(copied, delete_user_cb=lambda user: user is not copied)
    module.recompile()


def adopt(modules: list[nn.Module], original: nn.Module) -> None:
    """Give a home to every name of the state that no module has: with its tied twin, else in the last."""
    states = [module.state_dict(keep_vars=True) for module in modules]
    housed = set().union(*states)
    for name, tensor in original.state_dict(keep_vars=True).items():
        if name not in housed and isinstance(tensor, torch.Tensor):
            twins = (i for i, state in enumerate(states) if any(tensor is other for other in state.values()))
            attach(modules[next(twins, -1)], name, tensor)


def attach(module: nn.Module, name: str, tensor: torch.Tensor) -> None:
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
