# ruff: noqa: SLF001 (nn.Module has no public door to its dictionaries)
"""Runs of a module that leave it as it was: what its parts pass on, and what comes out in the end."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def preserve_state(module: nn.Module) -> Iterator[None]:
    """Restore the module's attributes, modes and buffers afterwards, and torch's random state."""
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


class PartFailure(Exception):
    """A part raised an error; ``place`` counts from 0."""

    def __init__(self, place: int, cause: Exception) -> None:
        super().__init__(f"part {place} failed: {cause}")
        self.place, self.cause = place, cause


@dataclass(frozen=True)
class PartOutput:
    """What a part did: one sample's output shape, None if no cut may follow; whether it wrote to its input."""

    shape: tuple[int, ...] | None
    wrote: bool


def run_parts(parts: Sequence[nn.Module], training: bool, example: Tensor) -> list[PartOutput]:
    """Run the parts in sequence on an example.

    Raises:
        PartFailure: one of them raises an error.
    """
    outputs = []
    value: Any = example.clone()
    for place, part in enumerate(parts):
        part.train(training)
        version = value._version if isinstance(value, Tensor) else 0
        try:
            output = call_part(part, value, meta=example.is_meta)
        except Exception as error:
            raise PartFailure(place, error) from error
        wrote = isinstance(value, Tensor) and value._version != version
        outputs.append(PartOutput(row_shape(output, len(example)), wrote))
        value = output
    return outputs


def call_part(part: nn.Module, value: Any, meta: bool) -> Any:
    """The part's output; on torch's meta device with shapes in place of weights."""
    with torch.no_grad():
        if not meta:
            return part(value)
        tensors = [*part.named_parameters(), *part.named_buffers()]
        return torch.func.functional_call(part, {name: each.to("meta") for name, each in tensors}, (value,))


def row_shape(output: Any, batch: int) -> tuple[int, ...] | None:
    """The shape of one sample if the output is a tensor of floats with one row per sample."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return None
    return tuple(output.shape[1:]) if output.dim() and len(output) == batch else None


@dataclass(frozen=True)
class RunResult:
    """What a module computed from an example: its output, its gradients and its buffers."""

    output: Any
    tensors: tuple[Tensor | None, ...]

    def agrees(self, other: RunResult) -> bool:
        """Whether two results are the same, up to the order in which gradients were summed."""
        return all(map(tensors_close, (self.output, *self.tensors), (other.output, *other.tensors)))


def run_parts_with_gradients(
    parts: Iterable[nn.Module], original: nn.Module, training: bool, example: Tensor
) -> RunResult:
    """The output of the parts run in sequence, the gradients of the original's weights, and its buffers."""
    with preserve_state(original), torch.enable_grad():
        torch.manual_seed(0)
        value: Any = example.clone()
        for part in parts:
            value = part.train(training)(value)
        if row_shape(value, len(example)) is None:
            return RunResult(value, ())
        left = gradients(value, [weight for weight in original.parameters() if weight.requires_grad])
        buffers = (buffer.clone() for buffer in original.buffers())
        return RunResult(value.detach(), (*left, *buffers))


def gradients(output: Tensor, weights: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients of an uneven sum of the output: an even one would cancel out after a softmax."""
    if not output.requires_grad or not weights:
        return ()
    uneven = torch.linspace(1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)
    return torch.autograd.grad((output * uneven).sum(), weights, allow_unused=True)


def tensors_close(left: Tensor | None, right: Tensor | None) -> bool:
    """Whether two tensors hold the same numbers, up to rounding."""
    if left is None or right is None:
        return left is right
    return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=1e-6, equal_nan=True)
