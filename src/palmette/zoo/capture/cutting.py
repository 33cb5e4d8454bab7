"""Cuts any module into layers, and proves it: the layers are compared with the module before they are given.

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
from palmette.zoo.capture.anatomy import anatomy
from palmette.zoo.capture.assembly import adopt, assemble, own_input
from palmette.zoo.capture.frame import Frame, Untraceable, reason
from palmette.zoo.capture.layer import Layer
from palmette.zoo.capture.probing import Answer, answer, observe, row_shape, undisturbed
from palmette.zoo.capture.segments import segments
from palmette.zoo.capture.sequential import cut_sequential, is_plain_sequential
from palmette.zoo.capture.tracing import Trace, by_export, by_fx, trace

MODES = (True, False)


def cut(module: nn.Module, example: Tensor) -> tuple[Layer, ...]:
    """The module as consecutive layers; it is left as it was.

    ``example`` is a batch of two samples or more. For an ``nn.Sequential`` it may be on torch's meta
    device: then only shapes are computed.

    Raises:
        InputError: the module cannot be cut into layers; says why.
    """
    try:
        require_one_input(module)
        finish_lazy(module, example)
        with undisturbed(module):
            require_plain_modes(module)
            layers = cut_sequential(module, example) if is_plain_sequential(module) else cut_any(module, example)
    except Untraceable as error:
        expected = f"cannot be cut into layers: {error}"
        raise InputError(Fault("model", type(module).__name__, expected)) from error
    modules = [layer.module for layer in layers]
    adopt(modules, module)
    settle(modules, module)
    return tuple(layers)


def require_one_input(module: nn.Module) -> None:
    """Refuse a forward that needs more than one argument."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = inspect.signature(module.forward).parameters.values()
    needed = [each.name for each in known if each.default is each.empty and each.kind in kinds]
    if len(needed) > 1:
        raise Untraceable(f"its forward takes several inputs ({', '.join(needed)}); expected one tensor")


def finish_lazy(module: nn.Module, example: Tensor) -> None:
    """Let lazy modules find their shapes."""
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        try:
            with torch.no_grad():
                module(example)
        except Exception as error:
            raise Untraceable(f"it fails on {sample(example)}: {reason(error)}") from error


def require_plain_modes(module: nn.Module) -> None:
    """Refuse a module with parts that do not follow ``train()`` and ``eval()``: in its layers they would."""
    for training in MODES:
        module.train(training)
        for name, inner in module.named_modules():
            if inner.training is not training:
                mode = "evaluation" if training else "training"
                raise Untraceable(f"its part {name} stays in {mode} mode, whatever the mode of the whole")


@dataclass(frozen=True)
class Trial:
    """A batch in one of the modes, and what the module itself makes of it."""

    training: bool
    batch: Tensor
    expected: Answer

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of one sample's output; None if that is not one tensor."""
        return row_shape(self.expected.output, len(self.batch))


def cut_any(module: nn.Module, example: Tensor) -> list[Layer]:
    """The layers of a module that is no plain ``nn.Sequential``."""
    # Batches of two sizes, since a forward may ask for the size and do something else then.
    trials = [attempt(module, True, example), attempt(module, False, torch.cat([example] * 3))]
    for trial in trials:
        if trial.shape is None:
            kind = type(trial.expected.output).__name__
            raise Untraceable(f"it returns a {kind}; expected one tensor of floats with a row a sample")
    if type(module).__module__.startswith("torch.nn."):
        return [Layer(type(module).__name__.lower(), module, trials[0].shape or ())]
    try:
        return cut_traced(by_fx, module, example, trials)
    except Untraceable:
        return cut_traced(by_export, module, example, trials)


def attempt(module: nn.Module, training: bool, batch: Tensor) -> Trial:
    """What the module itself makes of a batch."""
    try:
        return Trial(training, batch, answer([module], module, training, batch))
    except Exception as error:
        raise Untraceable(f"it fails on {sample(batch)}: {reason(error)}") from error


def cut_traced(how: Trace, module: nn.Module, example: Tensor, trials: Sequence[Trial]) -> list[Layer]:
    """The layers of a module by one way of tracing, if they do what the module does.

    Raises:
        Untraceable: it cannot be traced this way, or its layers fail or do something else.
    """
    graph, frame = trace(how, module, example)
    try:
        layers = cut_graph(graph, frame, example)
        modules = [layer.module for layer in layers]
        answers = [answer(modules, module, trial.training, trial.batch) for trial in trials]
    except Untraceable:
        raise
    except Exception as error:
        raise Untraceable(f"its layers fail: {reason(error)}") from error
    if not all(found.agrees(trial.expected) for found, trial in zip(answers, trials, strict=True)):
        raise Untraceable("its layers do not reproduce it; does its forward depend on more than its input?")
    return layers


def cut_graph(graph: fx.Graph, frame: Frame, example: Tensor) -> list[Layer]:
    """The layers of a graph."""
    with undisturbed(frame.module):
        known = anatomy(graph, frame, example)
        found = segments(graph, known)
        modules = [assemble(segment, known) for segment in found]
        shapes = own_inputs(modules, example)
    parts = zip(found, modules, shapes, strict=True)
    return [Layer(segment.name, module, shape) for segment, module, shape in parts]


def own_inputs(modules: Sequence[fx.GraphModule], example: Tensor) -> list[tuple[int, ...]]:
    """Give those modules a copy of their input that would write to it; the output shapes of one sample."""
    for training in MODES:
        passages = observe(modules, training, example)
        for module, passage in zip(modules, passages, strict=True):
            if passage.wrote:
                own_input(module)
    return [passage.shape or () for passage in passages]


def settle(modules: Sequence[nn.Module], original: nn.Module) -> None:
    """Give what was made around the original's parts the original's mode."""
    parts = set(original.modules())
    for module in modules:
        for inner in module.modules():
            if inner not in parts:
                inner.training = original.training


def sample(example: Tensor) -> str:
    """The shape of one sample, for people."""
    return "an input of " + ("×".join(map(str, example.shape[1:])) or "single numbers")
