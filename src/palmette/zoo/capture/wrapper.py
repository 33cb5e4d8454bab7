"""A module as the tracers see it, or as one layer, and what they say when they cannot trace it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from torch import Tensor, nn

from palmette.zoo.capture.bundle import plain_structure

WRAPPED_PREFIX = "_wrapped_."
_REGISTRIES = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


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


class WholeModule(nn.Module):
    """A module that is one layer: a bundle goes in, plain tuples and dicts come out, under the module's own names."""

    def __init__(self, module: nn.Module, names: Sequence[str] = ()) -> None:
        super().__init__()
        # The module's own dictionaries: what is replaced in one is replaced in the other.
        vars(self).update({each: vars(module)[each] for each in _REGISTRIES})
        # Not registered as a part: that would change the names of its weights.
        vars(self)["_called"] = ModuleWrapper(module, names)
        self.training = module.training

    @property
    def called(self) -> ModuleWrapper:
        """The module inside."""
        inside: ModuleWrapper = vars(self)["_called"]
        return inside

    def forward(self, *inputs: Tensor) -> Any:
        """The module's output."""
        return self.called(*inputs)

    def train(self, mode: bool = True) -> Self:
        """Set the module's mode, too."""
        self.called.train(mode)
        return super().train(mode)


def attribute_at(root: nn.Module, target: str) -> Any:
    """The attribute at a dotted path."""
    value: Any = root
    for part in target.split("."):
        value = getattr(value, part)
    return value


def describe_error(error: BaseException) -> str:
    """The first line of an error, as a user reads it."""
    if "DataDependent" in type(error).__name__ or any(each in str(error) for each in ("control flow", "FakeTensor")):
        return "what its forward does depends on the values of its input"
    if "Constraints violated" in str(error):
        return "what its forward does depends on the number of samples (as len(x) does, and x.shape[0] does not)"
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
