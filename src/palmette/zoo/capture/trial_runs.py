# ruff: noqa: SLF001 (nn.Module has no public door to its dictionaries)
"""Runs of a module that leave it as it was: what its parts pass on, and what comes out in the end."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

from palmette.zoo.batch_norms import BatchNormRecorder
from palmette.zoo.capture.bundle import Bundle, as_bundle

TRIAL_ROWS = 16
one_at_a_time = threading.RLock()
"""Held by whoever builds, tries or traces a module: all threads share torch's random state and warnings' filters, and
its tracers change ``nn.Module`` itself for as long as they run."""


@contextmanager
def preserve_state(module: nn.Module) -> Iterator[None]:
    """Restore the module's attributes, modes and buffers afterwards, and torch's random state.

    Hooks that it got meanwhile are removed: modules of transformers set theirs once, and know by an attribute that they
    did, so that without it they would set them again and return everything twice.
    """
    modules = list(module.modules())
    hooks = [(registry, set(registry)) for inner in modules for registry in _hook_registries(inner)]
    before = [(inner, dict(vars(inner)), dict(inner._buffers)) for inner in modules]
    contents = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    with one_at_a_time, torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for inner, attributes, buffers in before:
                vars(inner).clear()
                vars(inner).update(attributes)
                inner._buffers.clear()
                inner._buffers.update(buffers)
            for registry, known in hooks:
                for key in registry.keys() - known:
                    del registry[key]
            with torch.no_grad():
                for buffer, content in contents:
                    buffer.copy_(content)


def _hook_registries(module: nn.Module) -> list[dict[int, Any]]:
    """Where a module keeps its hooks, by their number."""
    return [kept for name, kept in vars(module).items() if "hooks" in name and isinstance(kept, dict)]


class PartFailure(Exception):
    """A part raised an error; ``place`` counts from 0."""

    def __init__(self, place: int, cause: Exception) -> None:
        super().__init__(f"part {place} failed: {cause}")
        self.place, self.cause = place, cause


@dataclass(frozen=True)
class PartOutput:
    """What a part did: what it returned, and to which of its inputs it wrote.

    ``shape`` is that of one sample of its output, if that is one tensor of floats with one row per sample.
    """

    value: Any
    shape: tuple[int, ...] | None
    wrote: tuple[bool, ...]


def run_parts(parts: Sequence[nn.Module], training: bool, example: Tensor) -> list[PartOutput]:
    """Run the parts in sequence on an example, each with what the one before returned.

    Raises:
        PartFailure: one of them raises an error.
    """
    outputs = []
    value: Any = example.clone()
    for place, part in enumerate(parts):
        outputs.append(run_part(part, place, training, (value,), len(example)))
        value = outputs[-1].value
    return outputs


def run_layers(parts: Sequence[nn.Module], training: bool, example: Bundle) -> list[PartOutput]:
    """Run layers in sequence on an example, each with the bundle that the one before returned.

    Raises:
        PartFailure: one of them raises an error.
    """
    outputs = []
    bundle = tuple(each.clone() for each in example)
    for place, part in enumerate(parts):
        outputs.append(run_part(part, place, training, bundle, len(example[0])))
        bundle = as_bundle(outputs[-1].value)
    return outputs


def run_part(part: nn.Module, place: int, training: bool, inputs: Sequence[Any], samples: int) -> PartOutput:
    """Run one part."""
    part.train(training)
    versions = [each._version if isinstance(each, Tensor) else 0 for each in inputs]
    try:
        output = call_part(part, inputs)
    except Exception as error:
        raise PartFailure(place, error) from error
    wrote = tuple(isinstance(x, Tensor) and x._version != known for x, known in zip(inputs, versions, strict=True))
    return PartOutput(output, row_shape(output, samples), wrote)


def call_part(part: nn.Module, inputs: Sequence[Any]) -> Any:
    """The part's output; on torch's meta device with shapes in place of weights."""
    with torch.no_grad():
        if not any(isinstance(each, Tensor) and each.is_meta for each in inputs):
            return part(*inputs)
        tensors = [*part.named_parameters(), *part.named_buffers()]
        return torch.func.functional_call(part, {name: each.to("meta") for name, each in tensors}, tuple(inputs))


def row_shape(output: Any, batch: int) -> tuple[int, ...] | None:
    """The shape of one sample if the output is a tensor of floats with one row per sample."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return None
    return tuple(output.shape[1:]) if output.dim() and len(output) == batch else None


def is_batched_structure(output: Any, batch: int) -> bool:
    """Whether an output is tensors in tuples and dicts, each with one row per sample, one at least of floats."""
    leaves = tree_leaves(output)
    rows = all(isinstance(each, Tensor) and each.dim() and len(each) == batch for each in leaves)
    return rows and any(each.is_floating_point() for each in leaves)


def random_rows(example: Bundle) -> Bundle:
    """Samples of the example's shape, of random numbers; integers are those of the example, which are valid."""
    rows = torch.arange(TRIAL_ROWS)
    drawn = torch.Generator().manual_seed(0)
    return tuple(
        torch.randn(len(rows), *each.shape[1:], dtype=each.dtype, generator=drawn)
        if each.is_floating_point()
        else each[rows % len(each)]
        for each in example
    )


def rows_are_independent(module: nn.Module, batch: Bundle) -> bool:
    """Whether samples get the same outputs together as alone, and leave nothing of themselves in buffers: a trial.

    Batch norms that take statistics of the batch are left out: how they do that is known.
    """
    return _rows_are_apart(module, batch) and _trains_apart(module, batch)


def _rows_are_apart(module: nn.Module, batch: Bundle) -> bool:
    """Whether samples get the same outputs together as alone, in evaluation mode."""
    with preserve_state(module), torch.no_grad(), BatchNormRecorder() as norms:
        module.eval()
        try:
            together = as_bundle(module(*(each.clone() for each in batch)))
            if norms.channels:
                return True
            alone = [as_bundle(module(*(each[k : k + 1].clone() for each in batch))) for k in range(len(batch[0]))]
            apart = [torch.cat(parts) for parts in zip(*alone, strict=True)]
        except Exception:  # noqa: BLE001  (the user's: what fails on other numbers is not shown to be independent)
            return False
    return all(map(_nearly_equal, together, apart))


def _trains_apart(module: nn.Module, batch: Bundle) -> bool:
    """Whether the first sample's outputs, and the buffers, are in training the same whatever the others are.

    Random numbers are the same in both runs, since the batches have one shape.
    """
    others = tuple(each[:1].expand_as(each) for each in batch)
    with torch.no_grad(), BatchNormRecorder() as norms:
        try:
            one, other = (_trained_once(module, each) for each in (batch, others))
        except Exception:  # noqa: BLE001  (the user's: what fails on other numbers is not shown to be independent)
            return False
    return bool(norms.channels) or all(map(_nearly_equal, one, other))


def _trained_once(module: nn.Module, batch: Bundle) -> list[Tensor]:
    """The first sample's outputs in training, and the buffers afterwards."""
    with preserve_state(module):
        torch.manual_seed(0)
        outputs = as_bundle(module.train()(*(each.clone() for each in batch)))
        return [*(each[0] for each in outputs), *(buffer.clone() for buffer in module.buffers())]


def _nearly_equal(together: Tensor, apart: Tensor) -> bool:
    """Whether outputs are the same but for the rounding of batches of other sizes."""
    if together.shape != apart.shape:
        return False
    if not together.is_floating_point():
        return torch.equal(together, apart)
    largest = max(1.0, float(together.abs().nan_to_num(0, 0, 0).max())) if together.numel() else 1.0
    return torch.allclose(together, apart, rtol=1e-3, atol=1e-4 * largest, equal_nan=True)


@dataclass(frozen=True)
class RunResult:
    """What a module computed from an example: its output, its gradients and its buffers."""

    output: Any
    tensors: tuple[Tensor | None, ...]

    def agrees(self, other: RunResult) -> bool:
        """Whether two results are the same, up to the order in which gradients were summed."""
        (mine, shape), (theirs, other_shape) = tree_flatten(self.output), tree_flatten(other.output)
        same = shape == other_shape and len(self.tensors) == len(other.tensors)
        return same and all(map(tensors_close, (*mine, *self.tensors), (*theirs, *other.tensors)))


def run_with_gradients(forward: nn.Module, original: nn.Module, training: bool, example: Bundle) -> RunResult:
    """The output of a module, the gradients of the original's weights, and its buffers."""
    with preserve_state(original), torch.enable_grad():
        torch.manual_seed(0)
        value = forward.train(training)(*(each.clone() for each in example))
        if not is_batched_structure(value, len(example[0])):
            return RunResult(value, ())
        left = gradients(as_bundle(value), [weight for weight in original.parameters() if weight.requires_grad])
        buffers = (buffer.clone() for buffer in original.buffers())
        return RunResult(tree_map(torch.Tensor.detach, value), (*left, *buffers))


def gradients(outputs: Bundle, weights: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients of an uneven sum of the outputs: an even one would cancel out after a softmax."""
    learning = [each for each in outputs if each.requires_grad]
    if not learning or not weights:
        return ()
    uneven = [torch.linspace(1, 2, each.numel(), dtype=each.dtype).reshape(each.shape) for each in learning]
    return torch.autograd.grad(learning, weights, uneven, allow_unused=True)


def tensors_close(left: Tensor | None, right: Tensor | None) -> bool:
    """Whether two tensors hold the same numbers, up to rounding, which is that of the largest: it was summed up."""
    if left is None or right is None:
        return left is right
    if not left.is_floating_point():
        return torch.equal(left, right)
    largest = max(1.0, float(right.abs().max())) if right.numel() else 1.0
    atol = 1e-6 * largest if math.isfinite(largest) else 1e-6
    return left.shape == right.shape and torch.allclose(left, right, rtol=1e-4, atol=atol, equal_nan=True)
