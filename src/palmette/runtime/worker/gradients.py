"""Gradients of weights, kept per instance and layer from backward to update.

They are summed in the plan's order where replicas meet, so that the result does not depend on timing. Where instances
share their weights they are added up as they come: what is kept is one sum, and those that came before their turn.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn


class GradientStore:
    """The gradients that some instances of a node have, by instance and layer: one for each trained weight.

    ``held`` are the layers of each instance, in the plan's order; ``trained`` the weights of each layer.
    """

    def __init__(
        self, held: Mapping[int, Collection[int]], trained: Mapping[int, Sequence[nn.Parameter]], device: torch.device
    ) -> None:
        self._own, self._trained, self._device = list(held), trained, device
        self._kept: dict[tuple[int, int], list[Tensor]] = {}

    def of(self, k: int, number: int) -> list[Tensor]:
        """The gradients of an instance for one layer, one per weight."""
        return self._kept[k, number]

    def has(self, number: int) -> bool:
        """Whether an instance here has gradients of a layer."""
        return any((k, number) in self._kept for k in self._own)

    def put_own(self, k: int, gradients: Mapping[int, list[Tensor]]) -> None:
        """Store the gradients of an instance's backward pass, by layer, one per weight."""
        self.put(k, gradients)

    def put(self, k: int, gradients: Mapping[int, Sequence[Tensor]]) -> None:
        """Store gradients for an instance, by layer, one per weight."""
        for number, parts in gradients.items():
            self._kept[k, number] = [part.to(self._device) for part in parts]

    def put_flat(self, k: int, gradients: Mapping[int, Tensor]) -> None:
        """Store gradients by layer, each in one flat tensor as ``take_sum`` returns them."""
        self.put(k, {number: self.split(number, value) for number, value in gradients.items()})

    def take(self, k: int, number: int) -> Sequence[Tensor]:
        """The gradients of an instance for one layer, which are cleared; empty if there are none."""
        return self._kept.pop((k, number), ())

    def take_sum(self, number: int) -> Tensor:
        """The gradients of a layer in one flat tensor, summed over the instances that hold it; clears them."""
        return summed([flat(parts) for parts in [self.take(k, number) for k in self._own] if parts])

    def flat_of(self, k: int, numbers: Iterable[int]) -> dict[int, Tensor]:
        """The gradients that an instance has for some layers, each in one flat tensor."""
        return {number: flat(self._kept[k, number]) for number in numbers if (k, number) in self._kept}

    def split(self, number: int, value: Tensor) -> list[Tensor]:
        """One gradient for each weight of a layer."""
        weights = self._trained[number]
        parts = torch.split(value.to(self._device), [weight.numel() for weight in weights])
        return [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]

    def scale(self, k: int, factor: float) -> None:
        """Multiply the gradients of an instance."""
        for (own, _), parts in self._kept.items():
            if own == k:
                parts[:] = [part * factor for part in parts]


class SummedGradients(GradientStore):
    """Adds the gradients of a layer up as they come, in the order of its instances, until ``take_sum``.

    A sum is kept as the gradients of the last instance in it. Gradients that come before those of an earlier instance
    wait for them, so that the sum is the same to the last bit whatever comes first. What is kept of a layer that
    several hold is a copy: others may have what autograd returned, and a copy can be added to in place.
    """

    def __init__(
        self, held: Mapping[int, Collection[int]], trained: Mapping[int, Sequence[nn.Parameter]], device: torch.device
    ) -> None:
        super().__init__(held, trained, device)
        self._holders = {number: [k for k, numbers in held.items() if number in numbers] for number in trained}
        self._added: dict[int, int] = {}
        self._lock = threading.Lock()  # a node may make several calls at once

    def put_own(self, k: int, gradients: Mapping[int, list[Tensor]]) -> None:
        """Add the gradients of an instance's backward pass to the sums of its layers, or keep them for their turn."""
        with self._lock:
            for number, own in gradients.items():
                if len(self._holders[number]) == 1:
                    self._kept[k, number] = own
                else:
                    self._add(k, number, own)

    def _add(self, k: int, number: int, own: Sequence[Tensor]) -> None:
        """Add gradients, and those that waited for them; a sum of two is the same whichever is added to the other."""
        holders, many = self._holders[number], self._added.get(number, 0)
        assert k not in holders[:many], "the sum of the last iteration has been taken"
        if holders[many] != k:
            self._kept[k, number] = [part.clone() for part in own]
            return
        kept = self._kept.pop((holders[many - 1 if many else 1], number), None)
        total = [part.clone() for part in own] if kept is None else _add_to(kept, own)
        many += 1 if many or kept is None else 2
        while many < len(holders) and (waiting := self._kept.pop((holders[many], number), None)) is not None:
            total, many = _add_to(total, waiting), many + 1
        self._kept[holders[many - 1], number], self._added[number] = total, many

    def take_sum(self, number: int) -> Tensor:
        """The sum of a layer's gradients in one flat tensor; clears it."""
        with self._lock:
            self._added.pop(number, None)
            return super().take_sum(number)


class AccumulatingGradients(GradientStore):
    """Adds gradients to those of earlier iterations that no update has taken yet."""

    def put_own(self, k: int, gradients: Mapping[int, list[Tensor]]) -> None:
        """Add the gradients of an instance's backward pass to those that it has."""
        for number, own in gradients.items():
            before = self._kept.get((k, number))
            self._kept[k, number] = own if before is None else list(map(torch.add, before, own))


def gradients_of(outputs: Sequence[Tensor], gradients: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of wanted tensors, given those of the outputs; zeros where nothing flows back."""
    pairs = [(x, g.to(x.device, x.dtype)) for x, g in zip(outputs, gradients, strict=True) if x.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(wanted)
    if wanted and pairs:
        ends, starts = zip(*pairs, strict=True)
        found = torch.autograd.grad(ends, wanted, starts, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]


def _add_to(total: list[Tensor], parts: Sequence[Tensor]) -> list[Tensor]:
    """Add tensors to others in place."""
    for each, part in zip(total, parts, strict=True):
        each.add_(part)
    return total


def summed(parts: Sequence[Tensor]) -> Tensor:
    """The sum of tensors, added in their order."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def flat(parts: Sequence[Tensor]) -> Tensor:
    """Tensors in one flat one."""
    return torch.cat([part.reshape(-1) for part in parts]) if len(parts) > 1 else parts[0].reshape(-1)
