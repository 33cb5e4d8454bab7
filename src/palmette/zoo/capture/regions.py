"""Parts of a forward under ``no_grad`` or autocast, as ``torch.export`` gives them, made plain operations.

Such a part is a call of a graph of its own (rotary embeddings have one). Under ``no_grad`` its operations take the
place of the call, on detached inputs, so that no gradient flows, and what needs no weights can be recomputed
like everywhere else. Under autocast it stays a call, of a module that turns autocast on or off:

    wrap_with_set_grad_enabled(False, part, x)          ▶  x.detach() ── cos ── mul
    wrap_with_autocast("cpu", None, False, True, part)  ▶  AutocastRegion(part)(x)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from palmette.zoo.capture.wrapper import ModuleWrapper, Untraceable, attribute_at

GRAD_REGION = "wrap_with_set_grad_enabled"
AUTOCAST_REGION = "wrap_with_autocast"


class AutocastRegion(nn.Module):
    """A part of a forward with autocast as the module's own code has it there."""

    def __init__(
        self, part: fx.GraphModule, device: str, dtype: torch.dtype | None, enabled: bool, cached: bool | None
    ) -> None:
        super().__init__()
        self.part, self.device, self.dtype, self.enabled, self.cached = part, device, dtype, enabled, cached

    def forward(self, *inputs: Any) -> Any:
        """The part's outputs."""
        with torch.autocast(self.device, self.dtype, enabled=self.enabled, cache_enabled=self.cached):
            return self.part(*inputs)


def replace_regions(exported: fx.GraphModule, wrapper: ModuleWrapper) -> None:
    """Replace all such calls in the graph of an exported module, in place; modules are added to ``wrapper``.

    Raises:
        Untraceable: a part under ``no_grad`` turns gradients on again.
    """
    while (node := next(filter(region_kind, exported.graph.nodes), None)) is not None:
        if region_kind(node) == AUTOCAST_REGION:
            replace_autocast(exported, wrapper, node)
        else:
            RegionInliner(exported, node).run()
    for node in reversed(exported.graph.nodes):
        if node.op == "get_attr" and not node.users:
            exported.graph.erase_node(node)


def region_kind(node: fx.Node) -> str:
    """The name of the region that a node calls; empty if it calls none."""
    name = str(getattr(node.target, "__name__", ""))
    return name if node.op == "call_function" and name in (GRAD_REGION, AUTOCAST_REGION) else ""


def region_graph(exported: fx.GraphModule, part: Any) -> fx.GraphModule:
    """The graph module that a region's call is given."""
    found = attribute_at(exported, str(part.target))
    assert isinstance(found, fx.GraphModule)
    return found


class RegionInliner:
    """Puts the operations of a part in the place of its call."""

    def __init__(self, exported: fx.GraphModule, node: fx.Node) -> None:
        self.exported, self.graph, self.node = exported, exported.graph, node
        enabled, part, *self.inputs = node.args
        self.enabled, self.part = bool(enabled), region_graph(exported, part)
        self.given = dict(zip(placeholders(self.part.graph), self.inputs, strict=True))

    def run(self) -> None:
        """Replace the call by the operations of its part."""
        with self.graph.inserting_before(self.node):
            results = self.inlined()
        for user in list(self.node.users):
            # An exported graph takes a region's results apart by getitem.
            place = user.args[1]
            assert isinstance(place, int)
            user.replace_all_uses_with(results[place])
            self.graph.erase_node(user)
        self.graph.erase_node(self.node)

    def inlined(self) -> list[Any]:
        """Copy the operations; returns what the part returns."""
        known = {node: self.entered(value) for node, value in self.given.items()}
        for node in self.part.graph.nodes:
            if node.op not in ("placeholder", "output"):
                known[node] = self.copied(node, known)
        returned = self.part.graph.output_node().args[0]
        # An input that is returned as it came keeps its gradient.
        return [self.given.get(each, known[each]) for each in returned]  # type: ignore[union-attr, index, arg-type]

    def entered(self, value: Any) -> Any:
        """An input inside the part: without a gradient, where that is a tensor."""
        is_tensor = isinstance(value, fx.Node) and isinstance(value.meta.get("val"), torch.Tensor)
        if self.enabled or not (is_tensor or (isinstance(value, fx.Node) and value.op == "get_attr")):
            return value
        detached = self.graph.call_function(torch.ops.aten.detach.default, (value,))
        detached.meta = dict(value.meta)
        return detached

    def copied(self, node: fx.Node, known: dict[fx.Node, Any]) -> fx.Node:
        """An operation of the part in the graph around it."""
        if region_kind(node) == GRAD_REGION and node.args[0] and not self.enabled:
            raise Untraceable("a part of its forward turns gradients on inside no_grad")
        copied = self.graph.node_copy(node, lambda each: known[each])
        if node.op == "get_attr":
            copied.target = f"_region_{copied.name}"
            setattr(self.exported, copied.target, attribute_at(self.part, str(node.target)))
        return copied


def replace_autocast(exported: fx.GraphModule, wrapper: ModuleWrapper, node: fx.Node) -> None:
    """Make a part under autocast a call of a module of its own."""
    device, dtype, enabled, cached, part, *inputs = node.args
    region = AutocastRegion(region_graph(exported, part), device, dtype, enabled, cached)  # type: ignore[arg-type]
    name = f"_autocast_{node.name}"
    wrapper.add_module(name, region)
    exported.add_module(name, region)
    node.op, node.target, node.args = "call_module", name, tuple(inputs)


def placeholders(graph: fx.Graph) -> list[fx.Node]:
    """The inputs of a graph."""
    return [node for node in graph.nodes if node.op == "placeholder"]
