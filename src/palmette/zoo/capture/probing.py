# ruff: noqa: SLF001 (nn.Module has no public door to its dictionaries)
"""Runs of a module that leave no mark: what passes from part to part, and what comes out in the end."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Put back the module's attributes, modes and buffers afterwards, and torch's random state."""
    modules = list(module.modules())
    before = [(inner, dict(vars(inner)), dict(inner._buffers)) for inner in modules]
    contents = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for inner, attributes, buffers in before:
                vars(inner).clear()
                vars(inner).update(attributes)
                inner._buffers.clear()
                inner._buffers.update(buffers)
            with torch.no_grad():
                for buffer, content in contents:
                    buffer.copy_(content)


class Failure(Exception):
    """A part raised an error; ``place`` counts from 0."""

    def __init__(self, place: int, cause: Exception) -> None:
        super().__init__(f"part {place} failed: {cause}")
        self.place, self.cause = place, cause


@dataclass(frozen=True)
class Passage:
    """What a part did: one sample's output shape, None if no cut may follow; whether it wrote to its input."""

    shape: tuple[int, ...] | None
    wrote: bool


def observe(parts: Sequence[nn.Module], training: bool, example: Tensor) -> list[Passage]:
    """Send an example through the parts, one after the other.

    Raises:
        Failure: one of them raises an error.
    """
    passages = []
    value: Any = example.clone()
    for place, part in enumerate(parts):
        part.train(training)
        version = value._version if isinstance(value, Tensor) else 0
        try:
            output = called(part, value, meta=example.is_meta)
        except Exception as error:
            raise Failure(place, error) from error
        wrote = isinstance(value, Tensor) and value._version != version
        passages.append(Passage(row_shape(output, len(example)), wrote))
        value = output
    return passages


def called(part: nn.Module, value: Any, meta: bool) -> Any:
    """The part's output; on torch's meta device with shapes in the place of weights."""
    with torch.no_grad():
        if not meta:
            return part(value)
        tensors = [*part.named_parameters(), *part.named_buffers()]
        return torch.func.functional_call(part, {name: each.to("meta") for name, each in tensors}, (value,))


def row_shape(output: Any, batch: int) -> tuple[int, ...] | None:
    """The shape of one sample if the output is a tensor of floats with a row a sample."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return None
    return tuple(output.shape[1:]) if output.dim() and len(output) == batch else None


@dataclass(frozen=True)
class Answer:
    """What a module made of an example: its output, and all that it leaves for learning."""

    output: Any
    tensors: tuple[Tensor | None, ...]

    def agrees(self, other: Answer) -> bool:
        """Whether two answers are the same, up to the order in which gradients were summed."""
        return all(map(alike, (self.output, *self.tensors), (other.output, *other.tensors)))


def answer(parts: Iterable[nn.Module], original: nn.Module, training: bool, example: Tensor) -> Answer:
    """The output of the parts in a row, the gradients of the original's weights, and its buffers."""
    with undisturbed(original), torch.enable_grad():
        torch.manual_seed(0)
        value: Any = example.clone()
        for part in parts:
            value = part.train(training)(value)
        if row_shape(value, len(example)) is None:
            return Answer(value, ())
        left = gradients(value, [weight for weight in original.parameters() if weight.requires_grad])
        buffers = (buffer.clone() for buffer in original.buffers())
        return Answer(value.detach(), (*left, *buffers))


def gradients(output: Tensor, weights: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients of an uneven sum of the output: an even one would cancel out after a softmax."""
    if not output.requires_grad or not weights:
        return ()
    uneven = torch.linspace(1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
    return torch.autograd.grad((output * uneven).sum(), weights, allow_unused=True)


def alike(left: Tensor | None, right: Tensor | None) -> bool:
    """Whether two tensors hold the same numbers, up to rounding."""
    if left is None or right is None:
        return left is right
    return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-6, equal_nan=True)
