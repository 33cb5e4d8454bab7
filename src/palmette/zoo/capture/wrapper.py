"""A module as the tracers see it, and what they say when they cannot trace it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

WRAPPED_PREFIX = "_wrapped_."


class Untraceable(Exception):
    """The module cannot be traced this way; the message says why."""


class ModuleWrapper(nn.Module):
    """A module as the tracers see it: one input, one output, and a place for constants beside it."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._wrapped_ = module
        self.training = module.training

    @property
    def module(self) -> nn.Module:
        """The module inside."""
        return self._wrapped_

    def forward(self, x: Tensor) -> Any:
        """The module's output."""
        return self._wrapped_(x)

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
