# ruff: noqa: SLF001 (nn.Module has no public door to its dictionaries)
"""An ``nn.Sequential`` cut between its children, which stay as they are.

Children stay together where weights are shared between them, and where what passes between them is not a
tensor of floats with one row per sample, since only that can be sent and divided between nodes. Of more than ``MOST``
layers, neighbours are joined; which ones depends on no widths, so that a pruned network has the same layers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeGuard

import torch
from torch import Tensor, nn

from palmette.zoo.capture.bundle import TensorSpec
from palmette.zoo.capture.cut_places import MOST, barriers, joined_note
from palmette.zoo.capture.layer import NetworkLayer
from palmette.zoo.capture.trial_runs import PartFailure, PartOutput, run_parts
from palmette.zoo.capture.wrapper import Untraceable, describe_error


class NotOneTensor(Untraceable):
    """An ``nn.Sequential`` does not return one tensor with one row per sample."""


class CloneInput(nn.Module):
    """Passes on a copy of its input, for a layer that writes to it."""

    def forward(self, x: Tensor) -> Tensor:
        """The copy."""
        return x.clone()


def is_plain_sequential(module: nn.Module) -> TypeGuard[nn.Sequential]:
    """Whether running the children one after the other is all that the module does."""
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
        return False
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
    return "forward" not in vars(module) and not any(hooks)


def cut_sequential(module: nn.Sequential, example: Tensor) -> list[NetworkLayer]:
    """The module's layers: a child each, or children that belong together.

    Raises:
        Untraceable: a child fails on the example.
        NotOneTensor: the last one does not return one tensor.
    """
    children = list(module._modules.items())
    seen = list(zip(*outputs_between(module, example), strict=True))
    barred = barriers({*map(id, child.parameters()), *map(id, child.buffers())} for child in module)
    shapes = {
        place: passed.shape
        for place, (passed, other) in enumerate(seen)
        if place not in barred and passed.shape is not None and other.shape is not None
    }
    if len(children) - 1 not in shapes:
        raise NotOneTensor("it does not return one tensor of floats with one row per sample")
    layers: list[NetworkLayer] = []
    start = 0
    for place in places_to_keep(shapes, list(module)):
        wrote = any(any(each.wrote) for each in seen[start])
        learns = any(weight.requires_grad for _, child in children[: place + 1] for weight in child.parameters())
        spec = TensorSpec(shapes[place], seen[place][0].value.dtype, learns)
        inside = set(range(start, place))
        note = why_together(barred & inside) if inside and not inside & shapes.keys() else ""
        together = group(children[start : place + 1], wrote)
        layers.append(NetworkLayer(children[start][0], together, shapes[place], (spec,), note))
        start = place + 1
    if len(layers) < len(shapes):
        note = "; ".join(filter(None, (joined_note(len(shapes), len(layers)), layers[0].note)))
        layers[0] = replace(layers[0], note=note)
    return layers


def places_to_keep(shapes: Mapping[int, Sequence[int]], children: Sequence[nn.Module]) -> list[int]:
    """At most ``MOST`` of the places where the children may be cut, the last one included.

    Of places after about as many matrices of weights, the one after which a channel is the smallest; of equal ones the
    first before a matrix, so that an activation stays with the layer that it follows.
    """
    last = len(children) - 1
    if len(shapes) <= MOST:
        return list(shapes)
    matrices = [sum(weight.dim() > 1 for weight in child.parameters()) for child in children]
    done = list(accumulate(matrices)) if any(matrices) else list(range(1, len(children) + 1))
    best: dict[int, tuple[int, bool, int]] = {}
    for place in [each for each in shapes if each < last]:
        share = min(MOST - 2, (done[place] - 1) * (MOST - 1) // done[-1])
        rank = torch.Size(shapes[place][1:]).numel(), not matrices[place + 1], place
        best[share] = min(best.get(share, rank), rank)
    return [*sorted(place for *_, place in best.values()), last]


def why_together(barred: set[int]) -> str:
    """Why children stay together, some of them because they share weights."""
    return "its parts share weights" if barred else "what passes between its parts is not one tensor of floats"


def outputs_between(module: nn.Sequential, example: Tensor) -> Iterator[list[PartOutput]]:
    """What passes between the children, in training and in evaluation."""
    try:
        # Batches of two sizes, so that no other dimension is taken for the batch by chance.
        yield run_parts(list(module), True, example)
        yield run_parts(list(module), False, torch.cat([example, example[:1]]))
    except PartFailure as failure:
        name = list(module._modules)[failure.place]
        raise Untraceable(f"its layer {name} fails: {describe_error(failure.cause)}") from failure


def group(children: list[tuple[str, nn.Module]], wrote: bool) -> nn.Sequential:
    """Some children as one module, under the names that they have."""
    return nn.Sequential(OrderedDict([("_copy", CloneInput()), *children] if wrote else children))
