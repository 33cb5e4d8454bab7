# ruff: noqa: SLF001 (torch.fx has no public door to an operation's schema)
"""Two graphs of one module, in training and in evaluation, as one graph for both.

Tracing runs a forward once and writes down its operations, so whatever depends on ``self.training``
(``F.dropout(x, 0.5, self.training)``, noise added only while training) is recorded as it was. So the module
is traced twice, once in either mode, and the two graphs are merged:

    in training     conv    dropout(·, 0.5, True)      add noise       linear
    in evaluation   conv    dropout(·, 0.5, False)                     linear    softmax
    merged          conv    dropout(·, 0.5, ModeValue) ModeOperation   linear    ModeOperation

An argument that differs is looked up by a ``ModeValue``, an operation that only one mode has is done by a
``ModeOperation``; both are modules without weights and follow ``train()`` and ``eval()`` like all others.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import fx, nn
from torch._ops import OpOverload

from palmette.zoo.capture.wrapper import WRAPPED_PREFIX, ModuleWrapper, Untraceable, attribute_at


class ModeValue(nn.Module):
    """A value that differs between training and evaluation."""

    def __init__(self, in_training: Any, in_evaluation: Any) -> None:
        super().__init__()
        self.in_training, self.in_evaluation = in_training, in_evaluation

    def forward(self) -> Any:
        """The value for the present mode."""
        return self.in_training if self.training else self.in_evaluation


class OperationModule(nn.Module):
    """An operation as a module, which can be pickled."""

    def __init__(self, operation: Callable[..., Any] | str) -> None:
        super().__init__()
        self.operation = operation

    def forward(self, *args: Any, **options: Any) -> Any:
        """Do it."""
        if isinstance(self.operation, str):
            return getattr(args[0], self.operation)(*args[1:], **options)
        return self.operation(*args, **options)

    def __getstate__(self) -> dict[str, Any]:
        # The operations of an exported graph cannot be pickled; their names can.
        if not isinstance(self.operation, OpOverload):
            return vars(self)
        return {**vars(self), "operation": tuple(str(self.operation).split("."))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        operation = state["operation"]
        if isinstance(operation, tuple):
            operation = attrgetter(".".join(operation))(torch.ops)
        vars(self).update(state, operation=operation)


class ModeOperation(OperationModule):
    """An operation that only one mode does; in the other one of its arguments passes unchanged, or nothing."""

    def __init__(self, operation: Callable[..., Any] | str, training: bool, passed: int | None) -> None:
        super().__init__(operation)
        self.done_in_training, self.passed = training, passed

    def forward(self, *args: Any, **options: Any) -> Any:
        """Do it, or pass the argument through."""
        if self.training is not self.done_in_training:
            return None if self.passed is None else args[self.passed]
        return super().forward(*args, **options)


class GraphMerger:
    """Merges the graph of evaluation into that of training."""

    def __init__(self, graph: fx.Graph, wrapper: ModuleWrapper, evaluation: fx.Graph, other: ModuleWrapper) -> None:
        self.graph, self.wrapper, self.evaluation, self.other = graph, wrapper, evaluation, other
        # Each value's node in the other graph; that of an operation evaluation skips is the value it passes through.
        self.image: dict[fx.Node, fx.Node] = {}
        self.origin: dict[fx.Node, fx.Node] = {}

    def run(self) -> None:
        """Merge, in place.

        Raises:
            Untraceable: the modes differ in more than arguments and skipped operations.
        """
        mine, others = operations(self.graph), operations(self.evaluation)
        while mine or others:
            if mine and others and self.same(mine[0], others[0]):
                self.pair(mine[0], others[0])
                self.merge_arguments(mine.pop(0), others.pop(0))
            elif mine and (not others or any(resembles(others[0], node) for node in mine)):
                self.only_training(mine.pop(0))
            else:
                self.only_evaluation(others.pop(0), mine)

    def pair(self, node: fx.Node, other: fx.Node) -> None:
        """Record that the two are the same value."""
        self.image[node], self.origin[other] = other, node

    def same(self, node: fx.Node, other: fx.Node) -> bool:
        """Whether the two do the same to the same values, up to plain arguments."""
        if node.op != other.op or node.target != other.target or set(node.kwargs) != set(other.kwargs):
            return False
        return self.pairs(*arguments(node, other)) and self.pairs(node.kwargs, other.kwargs)

    def pairs(self, left: Any, right: Any) -> bool:
        """Whether two arguments are the same values, or plain ones, in the same arrangement."""
        if isinstance(left, fx.Node) and isinstance(right, fx.Node):
            return self.image.get(left) is right or self.same_attribute(left, right)
        if isinstance(left, fx.Node) or isinstance(right, fx.Node):
            return False
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            return len(left) == len(right) and all(map(self.pairs, left, right))
        if isinstance(left, slice) and isinstance(right, slice):
            return self.pairs(ends(left), ends(right))
        if isinstance(left, dict) and isinstance(right, dict):
            return left.keys() == right.keys() and all(self.pairs(left[key], right[key]) for key in left)
        return True

    def same_attribute(self, left: fx.Node, right: fx.Node) -> bool:
        """Whether two nodes fetch the same weight, or equal constants."""
        if left.op != "get_attr" or right.op != "get_attr" or left.target != right.target:
            return False
        mine, others = attribute_at(self.wrapper, str(left.target)), attribute_at(self.other, str(right.target))
        return mine is others or torch.equal(mine, others)

    def merge_arguments(self, node: fx.Node, other: fx.Node) -> None:
        """Look up by mode the arguments in which the two differ."""
        if node.op in ("placeholder", "output"):
            return
        node.args = self.merged_argument(node, *arguments(node, other))
        node.kwargs = self.merged_argument(node, node.kwargs, other.kwargs)

    def merged_argument(self, node: fx.Node, left: Any, right: Any) -> Any:
        """An argument of ``node`` for both modes."""
        if isinstance(left, fx.Node):
            return left
        if isinstance(left, (list, tuple)):
            return type(left)(self.merged_argument(node, *both) for both in zip(left, right, strict=True))
        if isinstance(left, slice):
            return slice(*self.merged_argument(node, ends(left), ends(right)))
        if isinstance(left, dict):
            return {key: self.merged_argument(node, left[key], right[key]) for key in left}
        if left == right:
            return left
        with self.graph.inserting_before(node):
            return self.graph.create_node("call_module", self.installed(node, ModeValue(left, right)))

    def only_training(self, node: fx.Node) -> None:
        """Make ``node`` an operation that evaluation skips."""
        passed = self.passed(node)
        # Where nothing passes, the node stands for itself, which is nothing that evaluation knows.
        self.image[node] = node if passed is None else self.image[argument(node, passed)]
        if node.op == "call_module" and isinstance(attribute_at(self.wrapper, str(node.target)), nn.Dropout):
            return  # it already passes its input on in evaluation
        node.target = self.installed(node, ModeOperation(callee(node, "training"), True, passed))
        node.op = "call_module"

    def passed(self, node: fx.Node) -> int | None:
        """Which argument of ``node`` passes in its place in evaluation: the first that evaluation knows, too."""
        for place, value in enumerate(node.args):
            if isinstance(value, fx.Node) and (value.op == "get_attr" or self.image.get(value) in self.origin):
                self.image.setdefault(value, value)
                return place
        return None

    def only_evaluation(self, node: fx.Node, rest: list[fx.Node]) -> None:
        """Add the other graph's ``node`` as an operation that training skips, before all in ``rest``."""
        if not node.args or not isinstance(node.args[0], fx.Node):
            raise Untraceable(f"its forward takes another path in evaluation, at {node.target}")
        source = self.counterpart(node.args[0])
        target = self.installed(node, ModeOperation(callee(node, "evaluation"), False, 0))
        with self.graph.inserting_before(rest[0] if rest else None):
            args = fx.map_arg(node.args, self.counterpart)
            added = self.graph.create_node("call_module", target, args, fx.map_arg(node.kwargs, self.counterpart))
        source.replace_all_uses_with(added, delete_user_cb=lambda user: user in rest)
        self.pair(added, node)

    def counterpart(self, node: fx.Node) -> fx.Node:
        """The value of training that evaluation's ``node`` is."""
        if node not in self.origin:
            raise Untraceable("evaluation needs a value that training does not compute")
        return self.origin[node]

    def installed(self, node: fx.Node, module: nn.Module) -> str:
        """Add a module to the wrapper; returns its name there."""
        name = f"_mode_{node.name}"
        while hasattr(self.wrapper, name):
            name += "_"
        self.wrapper.add_module(name, module)
        return name


def operations(graph: fx.Graph) -> list[fx.Node]:
    """All nodes but those that only fetch a weight or a constant."""
    return [node for node in graph.nodes if node.op != "get_attr"]


def ends(part: slice) -> tuple[Any, Any, Any]:
    """What a slice is made of."""
    return part.start, part.stop, part.step


def resembles(node: fx.Node, other: fx.Node) -> bool:
    """Whether two nodes do the same, to whatever values."""
    return node.op == other.op and node.target == other.target


def argument(node: fx.Node, place: int) -> fx.Node:
    """The value at a place of a node's arguments."""
    value = node.args[place]
    assert isinstance(value, fx.Node)
    return value


def callee(node: fx.Node, mode: str) -> Callable[..., Any] | str:
    """The function or method that a node calls."""
    if node.op == "call_module":
        raise Untraceable(f"its part {str(node.target).removeprefix(WRAPPED_PREFIX)} runs only in {mode}")
    if node.op in ("placeholder", "output"):
        raise Untraceable(f"its forward takes another path in {mode}")
    return node.target


def arguments(node: fx.Node, other: fx.Node) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The positional arguments of two calls of one operation, with defaults where only one has them."""
    count = max(len(node.args), len(other.args))
    return filled(node, count), filled(other, count)


def filled(node: fx.Node, count: int) -> tuple[Any, ...]:
    """The first ``count`` positional arguments, with the operation's own defaults where they are left out."""
    if not isinstance(node.target, OpOverload):
        return node.args
    missing = node.target._schema.arguments[len(node.args) : count]
    return (*node.args, *(each.default_value for each in missing))
