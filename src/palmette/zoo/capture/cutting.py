"""Cuts any module into layers, and compares them with the module before they are returned.

An ``nn.Sequential`` is cut between its children. Any other module is traced, by ``torch.fx`` or, where that
fails or does not reproduce the module, by ``torch.export``, and cut where few tensors are alive. A module that cannot
be traced is one layer. Last, each layer is tried: where a sample's output depends on the other samples of its batch,
parts of the batch cannot run apart.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.parameter import is_lazy

from palmette.errors import Fault, InputError
from palmette.zoo.capture.build_module import assign_missing_state, build_module, clone_input
from palmette.zoo.capture.bundle import Bundle, Example, LayerChain, ModuleInput, TensorSpec, as_bundle, module_input
from palmette.zoo.capture.graph_analysis import analyse
from palmette.zoo.capture.layer import NetworkLayer
from palmette.zoo.capture.parametrized import make_picklable
from palmette.zoo.capture.segments import find_segments
from palmette.zoo.capture.sequential import NotOneTensor, cut_sequential, is_plain_sequential
from palmette.zoo.capture.tracing import TraceMethod, trace, trace_export, trace_fx
from palmette.zoo.capture.trial_runs import (
    RunResult,
    is_batched_structure,
    one_at_a_time,
    preserve_state,
    random_rows,
    rows_are_independent,
    run_layers,
    run_with_gradients,
)
from palmette.zoo.capture.wrapper import ModuleWrapper, Untraceable, WholeModule, describe_error
from palmette.zoo.lengths import VaryingAxis

MODES = (True, False)


def cut(module: nn.Module, example: Example, varying: Sequence[VaryingAxis] = ()) -> tuple[NetworkLayer, ...]:
    """The module as consecutive layers; it is left as it was.

    ``example`` is a batch of two samples or more of what the module is called with: a tensor, or several in order, or
    by the names of its arguments. For an ``nn.Sequential`` it may be on torch's meta device: then only shapes are
    computed. ``varying`` are axes of the example that are shorter in other batches, for which the layers are to be the
    same.

    Raises:
        InputError: the module cannot be cut into layers; says why.
    """
    given = module_input(example, varying)
    try:
        require_all_inputs(module, given)
        with one_at_a_time, without_cache(module):
            finish_lazy(module, given)
            refuse_complex_weights(module)
            with preserve_state(module):
                require_plain_modes(module)
                layers = with_mixing(cut_module(module, given), given)
    except Untraceable as error:
        expected = f"cannot be cut into layers: {error}"
        raise InputError(Fault("model", type(module).__name__, expected)) from error
    make_picklable(module)
    modules = [layer.module for layer in layers]
    assign_missing_state(modules, module)
    restore_mode(modules, module)
    return tuple(layers)


def cut_module(module: nn.Module, given: ModuleInput) -> list[NetworkLayer]:
    """The layers of a module by the way that suits it."""
    if not is_plain_sequential(module) or len(given.tensors) != 1 or given.names:
        return cut_any(module, given)
    try:
        layers = cut_sequential(module, given.tensors[0])
        refuse_one_length(layers, given)
        return layers
    except NotOneTensor:
        if given.tensors[0].is_meta or not len(module):
            raise
        return cut_any(module, given)


def refuse_one_length(layers: Sequence[NetworkLayer], given: ModuleInput) -> None:
    """Refuse layers that fail on shorter samples."""
    if not given.varying:
        return
    try:
        with torch.no_grad():
            LayerChain(layer.module for layer in layers)(*given.batch(len(given.tensors[0]), 1))
    except Exception as error:
        raise Untraceable(f"it fails on shorter samples: {describe_error(error)}") from error


def with_mixing(layers: Sequence[NetworkLayer], given: ModuleInput) -> list[NetworkLayer]:
    """The layers, those marked that mix the samples of a batch; on torch's meta device there is nothing to compare."""
    if given.tensors[0].is_meta:
        return list(layers)
    found = []
    bundle = given.tensors
    for layer in layers:
        mixes = layer.mixes_samples or not rows_are_independent(layer.module, bundle)
        found.append(replace(layer, mixes_samples=mixes))
        with torch.no_grad():
            bundle = as_bundle(layer.module.eval()(*(each.clone() for each in bundle)))
    return found


def require_all_inputs(module: nn.Module, given: ModuleInput) -> None:
    """Refuse an example with fewer inputs than a forward needs."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = inspect.signature(module.forward).parameters.values()
    needed = [each.name for each in known if each.default is each.empty and each.kind in kinds]
    missing = [name for name in needed if name not in given.names] if given.names else needed[len(given.tensors) :]
    if missing:
        raise Untraceable(f"its forward takes several inputs ({', '.join(needed)}); expected an example of each")


@contextmanager
def without_cache(module: nn.Module) -> Iterator[None]:
    """Turn off the caches of generation, which the models of transformers return as long as their config says so."""
    configs = {id(config): config for part in module.modules() if (config := getattr(part, "config", None)) is not None}
    cached = [config for config in configs.values() if getattr(config, "use_cache", None) is True]
    for config in cached:
        config.use_cache = False
    try:
        yield
    finally:
        for config in cached:
            config.use_cache = True


def finish_lazy(module: nn.Module, given: ModuleInput) -> None:
    """Initialise lazy modules."""
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        try:
            with torch.no_grad():
                ModuleWrapper(module, given.names)(*given.tensors)
        except Exception as error:
            raise Untraceable(f"it fails on {describe_input(given)}: {describe_error(error)}") from error


def refuse_complex_weights(module: nn.Module) -> None:
    """Refuse complex weights: what nodes exchange, clip and save are real numbers."""
    for name, weight in module.named_parameters():
        if weight.is_complex():
            advice = "expected real ones, made complex in the forward (torch.view_as_complex)"
            raise Untraceable(f"its weight {name} has complex numbers; {advice}")


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
    batch: Bundle
    expected: RunResult


def cut_any(module: nn.Module, given: ModuleInput) -> list[NetworkLayer]:
    """The layers of a module that is no plain ``nn.Sequential``."""
    # Batches of two sizes, since a forward may depend on the size.
    samples = len(given.tensors[0])
    tried = [(True, samples, 0), (False, 3 * samples, 0)]
    if given.varying:  # and of other lengths, for the same reason
        tried += [(True, samples, 1), (False, samples, 2)]
    references = [run_reference(module, given, *each) for each in tried]
    for reference in references:
        if not is_batched_structure(reference.expected.output, len(reference.batch[0])):
            kind = type(reference.expected.output).__name__
            raise Untraceable(f"it returns a {kind}; expected tensors with one row per sample, one at least of floats")
    output = references[0].expected.output
    if type(module).__module__.startswith("torch.nn.") and isinstance(output, Tensor) and not given.names:
        return [described_layer(type(module).__name__.lower(), module, output, learns(module))]
    try:
        return cut_traced(trace_fx, module, given, references)
    except Untraceable:
        try:
            return cut_traced(trace_export, module, given, references)
        except Untraceable as error:
            return [whole_layer(module, given, output, f"the network runs whole: it cannot be cut: {error}")]


def whole_layer(module: nn.Module, given: ModuleInput, output: Any, note: str) -> NetworkLayer:
    """A module as one layer."""
    plain = isinstance(output, Tensor) and not given.names
    part = module if plain else WholeModule(module, given.names)
    layer = described_layer(type(module).__name__.lower(), part, output, learns(module))
    return replace(layer, note=note, mixes_samples=not rows_are_independent(part, random_rows(given.tensors)))


def run_reference(module: nn.Module, given: ModuleInput, training: bool, samples: int, shorter: int) -> ReferenceRun:
    """What the module itself computes from a batch of so many samples, cut shorter by so many."""
    batch = given.batch(samples, shorter)
    try:
        found = run_with_gradients(ModuleWrapper(module, given.names), module, training, batch)
    except Exception as error:
        raise Untraceable(f"it fails on {describe_input(given)}: {describe_error(error)}") from error
    return ReferenceRun(training, batch, found)


def cut_traced(
    how: TraceMethod, module: nn.Module, given: ModuleInput, references: Sequence[ReferenceRun]
) -> list[NetworkLayer]:
    """The layers of a module by one method of tracing, if they compute what the module computes.

    Raises:
        Untraceable: it cannot be traced this way, or its layers fail or compute something else.
    """
    graph, wrapper = trace(how, module, given)
    try:
        return checked_layers(graph, wrapper, given, references)
    except Untraceable:
        return checked_layers(graph, wrapper, given, references, bundles=False)


def checked_layers(
    graph: fx.Graph,
    wrapper: ModuleWrapper,
    given: ModuleInput,
    references: Sequence[ReferenceRun],
    *,
    bundles: bool = True,
) -> list[NetworkLayer]:
    """The layers of a graph, if they compute what the module computes.

    Raises:
        Untraceable: they fail, or compute something else.
    """
    module = wrapper.module
    try:
        layers = cut_graph(graph, wrapper, given, bundles=bundles)
        whole = LayerChain(layer.module for layer in layers)
        results = [run_with_gradients(whole, module, reference.training, reference.batch) for reference in references]
    except Untraceable:
        raise
    except Exception as error:
        raise Untraceable(f"its layers fail: {describe_error(error)}") from error
    if not all(found.agrees(reference.expected) for found, reference in zip(results, references, strict=True)):
        raise Untraceable("its layers do not reproduce it; does its forward depend on more than its input?")
    return layers


def cut_graph(graph: fx.Graph, wrapper: ModuleWrapper, given: ModuleInput, *, bundles: bool) -> list[NetworkLayer]:
    """The layers of a graph."""
    with preserve_state(wrapper.module):
        analysis = analyse(graph, wrapper, given)
        found = find_segments(graph, analysis, bundles=bundles)
        modules = [build_module(segment, analysis) for segment in found]
        clone_written_inputs(modules, given.tensors)
        layers = described_layers([segment.name for segment in found], modules, given.tensors)
        return [replace(layer, note=segment.note) for layer, segment in zip(layers, found, strict=True)]


def clone_written_inputs(modules: Sequence[fx.GraphModule], example: Bundle) -> None:
    """Let modules that write to their inputs work on copies."""
    for training in MODES:
        for module, passed in zip(modules, run_layers(modules, training, example), strict=True):
            for place, wrote in enumerate(passed.wrote):
                if wrote:
                    clone_input(module, place)


def described_layers(names: Sequence[str], modules: Sequence[nn.Module], example: Bundle) -> list[NetworkLayer]:
    """Layers, with what each returns in training, and whether a gradient flows back through it."""
    layers = []
    value: Any = tuple(each.clone() for each in example)
    with torch.enable_grad():
        for name, module in zip(names, modules, strict=True):
            value = module.train()(*as_bundle(value))
            layers.append(described_layer(name, module, value))
    return layers


def described_layer(name: str, module: nn.Module, value: Any, gradient: bool = False) -> NetworkLayer:
    """A layer that returned ``value``."""
    specs = tuple(TensorSpec.of(each, gradient=gradient or each.requires_grad) for each in as_bundle(value))
    return NetworkLayer(name, module, specs[0].shape, specs)


def learns(module: nn.Module) -> bool:
    """Whether a module has weights that are trained."""
    return any(weight.requires_grad for weight in module.parameters())


def restore_mode(modules: Sequence[nn.Module], original: nn.Module) -> None:
    """Put the modules that were added around the original's parts into the original's mode."""
    parts = set(original.modules())
    for module in modules:
        for inner in module.modules():
            if inner not in parts:
                inner.training = original.training


def describe_input(given: ModuleInput) -> str:
    """The shapes of one sample, for an error message."""
    shapes = ["×".join(map(str, each.shape[1:])) or "single numbers" for each in given.tensors]
    return f"an input of {' and '.join(shapes)}"
