"""A module as the tracers see it, and what they say when they cannot trace it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from palmette.zoo.capture.bundle import plain_structure

WRAPPED_PREFIX = "_wrapped_."


class Untraceable(Exception):
    """The module cannot be traced this way; the message says why."""


class ModuleWrapper(nn.Module):
    """A module as the tracers see it: a bundle goes in, plain tuples and dicts come out, constants lie beside it."""

    def __init__(self, module: nn.Module, names: Sequence[str] = ()) -> None:
        super().__init__()
        self._wrapped_ = module
        self.training = module.training
        self._names = names

    @property
    def module(self) -> nn.Module:
        """The module inside."""
        return self._wrapped_

    def forward(self, *inputs: Tensor) -> Any:
        """The module's output."""
        named = dict(zip(self._names, inputs, strict=True)) if self._names else {}
        return plain_structure(self._wrapped_(**named) if named else self._wrapped_(*inputs))

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__["_modules"]
        if name in own or name in self.__dict__["_buffers"]:
            return super().__getattr__(name)
        return getattr(own["_wrapped_"], name)


def attribute_at(root: nn.Module, target: str) -> Any:
    """The attribute at a dotted path."""
    value: Any = root
    for part in target.split("."):
        value = getattr(value, part)
    return value


def describe_error(error: BaseException) -> str:
    """The first line of an error, as a user reads it."""
    if "DataDependent" in type(error).__name__ or "control flow" in str(error):
        return "what its forward does depends on the values of its input"
    if "Constraints violated" in str(error):
        return "what its forward does depends on the number of samples"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
