"""Compares layers with the module that they were cut from: outputs, gradients, buffers, in both modes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from palmette.zoo.capture import LayerChain, NetworkLayer, as_bundle
from palmette.zoo.capture.bundle import Bundle, Example, module_input, plain_structure

TINY = 1e-12


def assert_same_as_whole(module: nn.Module, layers: Sequence[NetworkLayer], x: Example) -> None:
    """With no cut, with each single cut, and with all cuts made."""
    count = len(layers)
    for cuts in [[], *([place] for place in range(1, count)), list(range(1, count))]:
        assert_same_with_cuts(module, layers, x, cuts)


def assert_same_with_cuts(module: nn.Module, layers: Sequence[NetworkLayer], x: Example, cuts: Iterable[int]) -> None:
    """Run the parts between cuts as strangers: only bundles and their gradients pass between them."""
    spans = list(pairwise([0, *cuts, len(layers)]))
    parts = [LayerChain(layer.module for layer in layers[a:b]) for a, b in spans]
    for training in (True, False):
        module.train(training)
        expected = whole(module, x)
        for part in parts:
            part.train(training)
        flags = [[spec.gradient for spec in layers[b - 1].outputs] for _, b in spans]
        assert_equal(by_parts(parts, flags, module, module_input(x).tensors), expected)


def assert_equal(actual: dict[str, Tensor | None], expected: dict[str, Tensor | None]) -> None:
    """Up to the order in which gradients were summed; mostly to the last bit, which is quick to see."""
    assert actual.keys() == expected.keys()
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


def called(module: nn.Module, x: Example) -> Any:
    """What a module returns in plain tuples and dicts, without None."""
    given = module_input(x)
    values = [tensor.clone() for tensor in given.tensors]
    return plain_structure(module(**dict(zip(given.names, values, strict=True))) if given.names else module(*values))


def whole(module: nn.Module, x: Example) -> dict[str, Tensor | None]:
    with buffers_kept(module):
        torch.manual_seed(3)
        module.zero_grad()
        output = called(module, x)
        back(as_bundle(output), directions(as_bundle(output)))
        return outcome(module, output)


def by_parts(
    parts: list[LayerChain], flags: list[list[bool]], module: nn.Module, bundle: Bundle
) -> dict[str, Tensor | None]:
    with buffers_kept(module):
        torch.manual_seed(3)
        module.zero_grad()
        inputs, outputs, output = [], [], None
        for place, part in enumerate(parts):
            learning = flags[place - 1] if place else [False] * len(bundle)
            bundle = tuple(x.detach().clone().requires_grad_(flag) for x, flag in zip(bundle, learning, strict=True))
            inputs.append(bundle)
            output = part(*bundle)
            bundle = as_bundle(output)
            outputs.append(bundle)
        gradients = directions(bundle)
        for taken, given in zip(reversed(inputs), reversed(outputs), strict=True):
            back(given, gradients)
            gradients = [each.grad for each in taken]
        return outcome(module, output)


def back(outputs: Bundle, gradients: Sequence[Tensor | None]) -> None:
    """Backward from all outputs that have a gradient."""
    pairs = [(x, g) for x, g in zip(outputs, gradients, strict=True) if x.requires_grad and g is not None]
    if pairs:
        torch.autograd.backward([x for x, _ in pairs], [g for _, g in pairs])


def directions(outputs: Bundle) -> list[Tensor | None]:
    return [
        torch.linspace(1, 2, x.numel(), dtype=x.dtype).reshape(x.shape) if x.is_floating_point() else None
        for x in outputs
    ]


def outcome(module: nn.Module, output: Any) -> dict[str, Tensor | None]:
    """The gradients are the weights' own, which the next ``zero_grad`` leaves as they are."""
    gradients = {f"gradient of {name}": weight.grad for name, weight in module.named_parameters()}
    buffers = {f"buffer {name}": buffer.clone() for name, buffer in module.named_buffers()}
    keys = [f"output {key}" for key in output] if isinstance(output, dict) else []
    outputs = {f"output {place}": each.detach() for place, each in enumerate(as_bundle(output))}
    return {**outputs, **dict.fromkeys(keys), **gradients, **buffers}
