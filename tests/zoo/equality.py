"""Compares layers with the module that they were cut from: outputs, gradients, buffers, in both modes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import Tensor, nn

from palmette.zoo.capture import NetworkLayer

TINY = 1e-12


def assert_same_as_whole(module: nn.Module, layers: Sequence[NetworkLayer], x: Tensor) -> None:
    """With no cut, with each single cut, and with all cuts made."""
    count = len(layers)
    for cuts in [[], *([place] for place in range(1, count)), list(range(1, count))]:
        assert_same_with_cuts(module, layers, x, cuts)


def assert_same_with_cuts(module: nn.Module, layers: Sequence[NetworkLayer], x: Tensor, cuts: Iterable[int]) -> None:
    """Run the parts between cuts as strangers: only a tensor and its gradient pass between them."""
    spans = pairwise([0, *cuts, len(layers)])
    parts = [nn.Sequential(*(layer.module for layer in layers[a:b])) for a, b in spans]
    for training in (True, False):
        module.train(training)
        expected = whole(module, x)
        for part in parts:
            part.train(training)
        assert_equal(by_parts(parts, module, x), expected)


def assert_equal(actual: dict[str, Tensor | None], expected: dict[str, Tensor | None]) -> None:
    """Up to the order in which gradients were summed; mostly to the last bit, which is quick to see."""
    for name, tensor in actual.items():
        other = expected[name]
        if tensor is None or other is None or not torch.equal(tensor, other):
            torch.testing.assert_close(tensor, other, rtol=0, atol=TINY, msg=lambda text, name=name: f"{name}: {text}")


@contextmanager
def buffers_kept(module: nn.Module) -> Iterator[None]:
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    yield
    for buffer, content in before:
        buffer.copy_(content)


def whole(module: nn.Module, x: Tensor) -> dict[str, Tensor | None]:
    with buffers_kept(module):
        torch.manual_seed(3)
        module.zero_grad()
        output = module(x.clone())
        output.backward(direction(output))
        return outcome(module, output)


def by_parts(parts: list[nn.Sequential], module: nn.Module, x: Tensor) -> dict[str, Tensor | None]:
    with buffers_kept(module):
        torch.manual_seed(3)
        module.zero_grad()
        inputs, outputs = [], []
        for part in parts:
            x = x.detach().clone().requires_grad_(bool(outputs))
            inputs.append(x)
            x = part(x)
            outputs.append(x)
        gradient = direction(x)
        for taken, given in zip(reversed(inputs), reversed(outputs), strict=True):
            given.backward(gradient)
            gradient = taken.grad
        return outcome(module, outputs[-1])


def direction(output: Tensor) -> Tensor:
    return torch.linspace(1, 2, output.numel(), dtype=output.dtype).reshape(output.shape)


def outcome(module: nn.Module, output: Tensor) -> dict[str, Tensor | None]:
    """The gradients are the weights' own, which the next ``zero_grad`` leaves as they are."""
    gradients = {f"gradient of {name}": weight.grad for name, weight in module.named_parameters()}
    buffers = {f"buffer {name}": buffer.clone() for name, buffer in module.named_buffers()}
    return {"output": output.detach(), **gradients, **buffers}
