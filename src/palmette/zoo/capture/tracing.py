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

from torch import Tensor, fx, nn

from palmette.zoo.capture.modes import GraphMerger
from palmette.zoo.capture.wrapper import ModuleWrapper, Untraceable, attribute_at, describe_error

TraceMethod = Callable[[nn.Module, Tensor], tuple[fx.Graph, ModuleWrapper]]


def trace(how: TraceMethod, module: nn.Module, example: Tensor) -> tuple[fx.Graph, ModuleWrapper]:
    """The graph of ``module`` for both modes, and the wrapper that its targets are looked up on.

    Raises:
        Untraceable: it cannot be traced this way, or the modes differ in more than can be merged.
    """
    traced = []
    for training in (True, False):
        module.train(training)
        try:
            traced.append(how(module, example))
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(describe_error(error)) from error
    (graph, wrapper), (evaluation, other) = traced
    GraphMerger(graph, wrapper, evaluation, other).run()
    return graph, wrapper


class Tracer(fx.Tracer):
    """Keeps torch's own modules whole, except an encoder, which is a sequence of layers without a mask."""

    # Otherwise what is done to buffers happens once, while tracing, and never again.
    proxy_buffer_attributes = True

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record the call of a module, or what it does inside."""
        if type(m) is not nn.TransformerEncoder or len(args) != 1 or kwargs:
            return super().call_module(m, forward, args, kwargs)
        (value,) = args
        for layer in (*m.layers, *([] if m.norm is None else [m.norm])):
            value = layer(value)
        return value


def trace_fx(module: nn.Module, example: Tensor) -> tuple[fx.Graph, ModuleWrapper]:  # noqa: ARG001 (as trace_export)
    """The graph by symbolic tracing."""
    wrapper = ModuleWrapper(module)
    return Tracer().trace(wrapper), wrapper


def trace_export(module: nn.Module, example: Tensor) -> tuple[fx.Graph, ModuleWrapper]:
    """The graph by ``torch.export``, for any number of samples."""
    # Most modules are traced without it, and it takes a while to import.
    from torch.export import Dim, export

    wrapper = ModuleWrapper(module)
    with suppress_output():
        exported = export(wrapper, (example,), dynamic_shapes=({0: Dim.DYNAMIC},)).module(check_guards=False)
    graph: fx.Graph = exported.graph
    for node in graph.nodes:
        if node.op == "get_attr" and not has_attribute_at(wrapper, str(node.target)):
            constant = attribute_at(exported, str(node.target))
            node.target = f"_constant_{node.name}"
            wrapper.register_buffer(node.target, require_tensor(constant), persistent=False)
    return graph, wrapper


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
        raise Untraceable("a part of its forward runs under no_grad or autocast; expected detach() or none")
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
