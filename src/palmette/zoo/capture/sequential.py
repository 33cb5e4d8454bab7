# ruff: noqa: SLF001 (nn.Module has no public door to its dictionaries)
"""An ``nn.Sequential`` cut between its children, which stay as they are.

Children stay together where weights are shared between them, and where what passes between them is not a
tensor of floats with a row a sample, since only that can be sent on and divided between nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import TypeGuard

import torch
from torch import Tensor, nn

from palmette.zoo.capture.frame import Untraceable, reason
from palmette.zoo.capture.layer import Layer
from palmette.zoo.capture.probing import Failure, Passage, observe
from palmette.zoo.capture.segments import barriers


class Copy(nn.Module):
    """Hands on a copy of its input, for a layer that would write to it."""

    def forward(self, x: Tensor) -> Tensor:
        """The copy."""
        return x.clone()


def is_plain_sequential(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Whether running the children one after the other is all that the module does."""
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
        return False
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return "forward" not in vars(module) and not any(hooks)


def cut_sequential(module: nn.Sequential, example: Tensor) -> list[Layer]:
    """The module's layers: a child each, or children that belong together.

    Raises:
        Untraceable: a child fails on the example, or the last one does not return one tensor.
    """
    children = list(module._modules.items())
    seen = list(zip(*observed(module, example), strict=True))
    barred = barriers({*map(id, child.parameters()), *map(id, child.buffers())} for child in module)
    layers: list[Layer] = []
    start = 0
    for place, (passage, other) in enumerate(seen):
        if place in barred or passage.shape is None or other.shape is None:
            continue
        wrote = any(each.wrote for each in seen[start])
        layers.append(Layer(children[start][0], group(children[start : place + 1], wrote), passage.shape))
        start = place + 1
    if not layers or start < len(children):
        raise Untraceable("it does not return one tensor of floats with a row a sample")
    return layers


def observed(module: nn.Sequential, example: Tensor) -> Iterator[list[Passage]]:
    """What passes between the children, in training and in evaluation."""
    try:
        # Batches of two sizes, so that no other dimension is taken for the batch by chance.
        yield observe(list(module), True, example)
        yield observe(list(module), False, torch.cat([example, example[:1]]))
    except Failure as failure:
        name = list(module._modules)[failure.place]
        raise Untraceable(f"its layer {name} fails: {reason(failure.cause)}") from failure


def group(children: list[tuple[str, nn.Module]], wrote: bool) -> nn.Sequential:
    """Some children as one module, under the names that they have."""
    return nn.Sequential(OrderedDict([("_copy", Copy()), *children] if wrote else children))
