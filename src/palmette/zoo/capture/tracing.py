"""One graph of what a module's forward does, by ``torch.fx`` or by ``torch.export``.

``torch.fx`` comes first, since it keeps torch's own modules whole; ``torch.export`` sees through more
Python, down to single operations. Both see the module inside a ``Frame``, so that optional arguments keep
their defaults, hooks run, and the tracer's constants do not land on the user's module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

from torch import Tensor, fx, nn

from palmette.zoo.capture.frame import Frame, Untraceable, found, reason
from palmette.zoo.capture.modes import Merge

Trace = Callable[[nn.Module, Tensor], tuple[fx.Graph, Frame]]


def trace(how: Trace, module: nn.Module, example: Tensor) -> tuple[fx.Graph, Frame]:
    """The graph of ``module`` for both modes, and the frame that its targets are looked up on.

    Raises:
        Untraceable: it cannot be traced this way, or the modes differ in more than can be told apart.
    """
    traced = []
    for training in (True, False):
        module.train(training)
        try:
            traced.append(how(module, example))
        except Untraceable:
            raise
        except Exception as error:
            raise Untraceable(reason(error)) from error
    (graph, frame), (evaluation, other) = traced
    Merge(graph, frame, evaluation, other).run()
    return graph, frame


class Tracer(fx.Tracer):
    """Keeps torch's own modules whole, but for an encoder, which is a mere row of layers without a mask."""

    # Otherwise what is done to buffers happens once, while tracing, and never again.
    proxy_buffer_attributes = True

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Write down the call of a module, or what it does."""
        if type(m) is not nn.TransformerEncoder or len(args) != 1 or kwargs:
            return super().call_module(m, forward, args, kwargs)
        (value,) = args
        for layer in (*m.layers, *([] if m.norm is None else [m.norm])):
            value = layer(value)
        return value


def by_fx(module: nn.Module, example: Tensor) -> tuple[fx.Graph, Frame]:  # noqa: ARG001 (as by_export)
    """The graph by symbolic tracing."""
    frame = Frame(module)
    return Tracer().trace(frame), frame


def by_export(module: nn.Module, example: Tensor) -> tuple[fx.Graph, Frame]:
    """The graph by ``torch.export``, for any number of samples."""
    # Most modules are traced without it, and it takes a while to import.
    from torch.export import Dim, export

    frame = Frame(module)
    with silence():
        exported = export(frame, (example,), dynamic_shapes=({0: Dim.DYNAMIC},)).module(check_guards=False)
    graph: fx.Graph = exported.graph
    for node in graph.nodes:
        if node.op == "get_attr" and not hasattr_at(frame, str(node.target)):
            constant = found(exported, str(node.target))
            node.target = f"_constant_{node.name}"
            frame.register_buffer(node.target, checked(constant), persistent=False)
    return graph, frame


def hasattr_at(frame: Frame, target: str) -> bool:
    """Whether there is an attribute at a dotted path."""
    try:
        found(frame, target)
    except AttributeError:
        return False
    return True


def checked(constant: object) -> Tensor:
    """A constant of an exported graph, if it is one."""
    if not isinstance(constant, Tensor):
        raise Untraceable("a part of its forward runs under no_grad or autocast; expected detach() or none")
    return constant


@contextmanager
def silence() -> Iterator[None]:
    """Keep what torch prints and logs about a failed export from the user: the error says enough."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            yield
    finally:
        logging.disable(disabled)
