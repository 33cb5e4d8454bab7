"""Cuts any module into layers, and compares them with the module before they are returned.

An ``nn.Sequential`` is cut between its children. Any other module is traced, by ``torch.fx`` or, where that
fails or does not reproduce the module, by ``torch.export``, and cut where one tensor is alive.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy

from palmette.errors import Fault, InputError
from palmette.zoo.capture.build_module import assign_missing_state, build_module, clone_input
from palmette.zoo.capture.graph_analysis import analyse
from palmette.zoo.capture.layer import NetworkLayer
from palmette.zoo.capture.segments import find_segments
from palmette.zoo.capture.sequential import cut_sequential, is_plain_sequential
from palmette.zoo.capture.tracing import TraceMethod, trace, trace_export, trace_fx
from palmette.zoo.capture.trial_runs import RunResult, preserve_state, row_shape, run_parts, run_parts_with_gradients
from palmette.zoo.capture.wrapper import ModuleWrapper, Untraceable, describe_error

MODES = (True, False)


def cut(module: nn.Module, example: Tensor) -> tuple[NetworkLayer, ...]:
    """The module as consecutive layers; it is left as it was.

    ``example`` is a batch of two samples or more. For an ``nn.Sequential`` it may be on torch's meta
    device: then only shapes are computed.

    Raises:
        InputError: the module cannot be cut into layers; says why.
    """
    try:
        require_one_input(module)
        finish_lazy(module, example)
        with preserve_state(module):
            require_plain_modes(module)
            layers = cut_sequential(module, example) if is_plain_sequential(module) else cut_any(module, example)
    except Untraceable as error:
        expected = f"cannot be cut into layers: {error}"
        raise InputError(Fault("model", type(module).__name__, expected)) from error
    modules = [layer.module for layer in layers]
    assign_missing_state(modules, module)
    restore_mode(modules, module)
    return tuple(layers)


def require_one_input(module: nn.Module) -> None:
    """Refuse a forward that needs more than one argument."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = inspect.signature(module.forward).parameters.values()
    needed = [each.name for each in known if each.default is each.empty and each.kind in kinds]
    if len(needed) > 1:
        raise Untraceable(f"its forward takes several inputs ({', '.join(needed)}); expected one tensor")


def finish_lazy(module: nn.Module, example: Tensor) -> None:
    """Initialise lazy modules."""
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        try:
            with torch.no_grad():
                module(example)
        except Exception as error:
            raise Untraceable(f"it fails on {describe_input(example)}: {describe_error(error)}") from error


def require_plain_modes(module: nn.Module) -> None:
    """Refuse a module with parts that do not follow ``train()`` and ``eval()``: in its layers they would."""
    for training in MODES:
        module.train(training)
        for name, inner in module.named_modules():
            if inner.training is not training:
                mode = "evaluation" if training else "training"
                raise Untraceable(f"its part {name} stays in {mode} mode, whatever the mode of the whole")


@dataclass(frozen=True)
class ReferenceRun:
    """A batch in one of the modes, and what the module itself computes from it."""

    training: bool
    batch: Tensor
    expected: RunResult

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of one sample's output; None if that is not one tensor."""
        return row_shape(self.expected.output, len(self.batch))


def cut_any(module: nn.Module, example: Tensor) -> list[NetworkLayer]:
    """The layers of a module that is no plain ``nn.Sequential``."""
    # Batches of two sizes, since a forward may depend on the size.
    references = [run_reference(module, True, example), run_reference(module, False, torch.cat([example] * 3))]
    for reference in references:
        if reference.shape is None:
            kind = type(reference.expected.output).__name__
            raise Untraceable(f"it returns a {kind}; expected one tensor of floats with one row per sample")
    if type(module).__module__.startswith("torch.nn."):
        return [NetworkLayer(type(module).__name__.lower(), module, references[0].shape or ())]
    try:
        return cut_traced(trace_fx, module, example, references)
    except Untraceable:
        return cut_traced(trace_export, module, example, references)


def run_reference(module: nn.Module, training: bool, batch: Tensor) -> ReferenceRun:
    """What the module itself computes from a batch."""
    try:
        return ReferenceRun(training, batch, run_parts_with_gradients([module], module, training, batch))
    except Exception as error:
        raise Untraceable(f"it fails on {describe_input(batch)}: {describe_error(error)}") from error


def cut_traced(
    how: TraceMethod, module: nn.Module, example: Tensor, references: Sequence[ReferenceRun]
) -> list[NetworkLayer]:
    """The layers of a module by one method of tracing, if they compute what the module computes.

    Raises:
        Untraceable: it cannot be traced this way, or its layers fail or compute something else.
    """
    graph, wrapper = trace(how, module, example)
    try:
        layers = cut_graph(graph, wrapper, example)
        modules = [layer.module for layer in layers]
        results = [
            run_parts_with_gradients(modules, module, reference.training, reference.batch) for reference in references
        ]
    except Untraceable:
        raise
    except Exception as error:
        raise Untraceable(f"its layers fail: {describe_error(error)}") from error
    if not all(found.agrees(reference.expected) for found, reference in zip(results, references, strict=True)):
        raise Untraceable("its layers do not reproduce it; does its forward depend on more than its input?")
    return layers


def cut_graph(graph: fx.Graph, wrapper: ModuleWrapper, example: Tensor) -> list[NetworkLayer]:
    """The layers of a graph."""
    with preserve_state(wrapper.module):
        analysis = analyse(graph, wrapper, example)
        found = find_segments(graph, analysis)
        modules = [build_module(segment, analysis) for segment in found]
        shapes = clone_written_inputs(modules, example)
    parts = zip(found, modules, shapes, strict=True)
    return [NetworkLayer(segment.name, module, shape) for segment, module, shape in parts]


def clone_written_inputs(modules: Sequence[fx.GraphModule], example: Tensor) -> list[tuple[int, ...]]:
    """Let modules that write to their input work on a copy; returns the output shape of one sample of each."""
    for training in MODES:
        outputs = run_parts(modules, training, example)
        for module, passed in zip(modules, outputs, strict=True):
            if passed.wrote:
                clone_input(module)
    return [passed.shape or () for passed in outputs]


def restore_mode(modules: Sequence[nn.Module], original: nn.Module) -> None:
    """Put the modules that were added around the original's parts into the original's mode."""
    parts = set(original.modules())
    for module in modules:
        for inner in module.modules():
            if inner not in parts:
                inner.training = original.training


def describe_input(example: Tensor) -> str:
    """The shape of one sample, for an error message."""
    return "an input of " + ("×".join(map(str, example.shape[1:])) or "single numbers")
