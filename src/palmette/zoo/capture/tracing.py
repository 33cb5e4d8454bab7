"""One graph of what a module's forward does, by ``torch.fx`` or by ``torch.export``.

``torch.fx`` comes first, since it keeps torch's own modules whole; ``torch.export`` sees through more
Python, down to single operations. Both see the module inside a ``ModuleWrapper``, so that optional arguments keep
their defaults, hooks run, and the tracer's constants do not land on the user's module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import TreeSpec, tree_unflatten

from palmette.zoo.capture.bundle import ModuleInput
from palmette.zoo.capture.modes import GraphMerger
from palmette.zoo.capture.regions import replace_regions
from palmette.zoo.capture.transformers import SEQUENCES, given_arguments
from palmette.zoo.capture.trial_runs import preserve_state
from palmette.zoo.capture.wrapper import ModuleWrapper, Untraceable, attribute_at, describe_error

TraceMethod = Callable[[nn.Module, ModuleInput], tuple[fx.Graph, ModuleWrapper]]


def trace(how: TraceMethod, module: nn.Module, example: ModuleInput) -> tuple[fx.Graph, ModuleWrapper]:
    """The graph of ``module`` for both modes, and the wrapper that its targets are looked up on.

    Raises:
        Untraceable: it cannot be traced this way, or the modes differ in more than can be merged.
    """
    traced = []
    for training in (True, False):
        module.train(training)
        try:
            with preserve_state(module):
                traced.append(how(module, example))
                refuse_left_proxies(module)
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(describe_error(error)) from error
    (graph, wrapper), (evaluation, other) = traced
    GraphMerger(graph, wrapper, evaluation, other).run()
    return graph, wrapper


def refuse_left_proxies(module: nn.Module) -> None:
    """Refuse a forward that sets a buffer anew: a symbolic trace leaves its own stand-in there and records nothing."""
    buffers: list[tuple[str, Any]] = list(module.named_buffers())
    for name, buffer in buffers:
        if isinstance(buffer, fx.Proxy):
            raise Untraceable(f"its forward sets its buffer {name} anew")


class Tracer(fx.Tracer):
    """Keeps torch's own modules whole, except those of transformers that are sequences of layers."""

    # Otherwise what is done to buffers happens once, while tracing, and never again.
    proxy_buffer_attributes = True

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self._inputs = inputs

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: Any = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The wrapper's forward, with a placeholder for each input."""
        names = ["x"] if self._inputs == 1 else [f"x{place}" for place in range(self._inputs)]
        return root_fn, [self.root, *(self.create_proxy("placeholder", name, (), {}) for name in names)]

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record the call of a module, or what it does inside."""
        inside = SEQUENCES.get(type(m))
        if inside is None:
            return super().call_module(m, forward, args, kwargs)
        return inside(m, given_arguments(m, args, kwargs))


def trace_fx(module: nn.Module, example: ModuleInput) -> tuple[fx.Graph, ModuleWrapper]:
    """The graph by symbolic tracing."""
    wrapper = ModuleWrapper(module, example.names)
    return Tracer(len(example.tensors)).trace(wrapper), wrapper


def trace_export(module: nn.Module, example: ModuleInput) -> tuple[fx.Graph, ModuleWrapper]:
    """The graph by ``torch.export``, for any number of samples, and any length where that varies."""
    # Most modules are traced without it, and it takes a while to import.
    from torch.export import Dim, export

    wrapper = ModuleWrapper(module, example.names)
    inputs = tuple(tensor.clone() for tensor in example.tensors)
    changing: list[dict[int, Any]] = [{0: Dim.DYNAMIC} for _ in inputs]
    for each in example.varying:
        changing[each.tensor][each.axis] = Dim.DYNAMIC
    with suppress_output():
        program = export(wrapper, inputs, dynamic_shapes=(tuple(changing),))
        exported = program.module(check_guards=False)
    replace_regions(exported, wrapper)
    graph: fx.Graph = exported.graph
    restore_output(graph, program.call_spec.out_spec)
    remove_checks(graph)
    for node in graph.nodes:
        if node.op == "get_attr" and not has_attribute_at(wrapper, str(node.target)):
            constant = attribute_at(exported, str(node.target))
            node.target = f"_constant_{node.name}"
            wrapper.register_buffer(node.target, require_tensor(constant), persistent=False)
    return graph, wrapper


def restore_output(graph: fx.Graph, structure: TreeSpec) -> None:
    """Let a graph return what the wrapper does; an exported one returns a flat list and puts it in order afterwards."""
    output = graph.output_node()
    (flat,) = output.args
    assert isinstance(flat, (tuple, list))
    output.args = (tree_unflatten(flat, structure),)
    graph.set_codegen(fx.graph.CodeGen())


def remove_checks(graph: fx.Graph) -> None:
    """Remove the checks of dtypes that export adds: a run may compute in another."""
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:  # noqa: SLF001 (its name)
            graph.erase_node(node)


def has_attribute_at(wrapper: ModuleWrapper, target: str) -> bool:
    """Whether there is an attribute at a dotted path."""
    try:
        attribute_at(wrapper, target)
    except AttributeError:
        return False
    return True


def require_tensor(constant: object) -> Tensor:
    """A constant of an exported graph, if it is a tensor."""
    if not isinstance(constant, Tensor):
        raise Untraceable("a part of its forward is a graph of its own, as of torch.cond; expected plain operations")
    return constant


@contextmanager
def suppress_output() -> Iterator[None]:
    """Hide what torch prints and logs about a failed export: the error says enough."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(disabled)
