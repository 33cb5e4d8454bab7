"""The batch norms that a network calls, through whatever API.

``nn.BatchNorm2d``, a subclass of it, ``F.batch_norm`` in a user's forward and the operation of an exported graph all
end in one of a few functions, which a ``TorchFunctionMode`` sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class BatchNormCall(NamedTuple):
    """The arguments of a batch norm."""

    values: Tensor
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    training: bool
    momentum: float
    eps: float

    @property
    def uses_batch(self) -> bool:
        """Whether it takes its statistics from what it normalises."""
        return self.training or self.running_mean is None

    @property
    def channels(self) -> int:
        """The number of channels, each with its own statistics."""
        return int(self.values.shape[1])


def batch_norm_call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BatchNormCall | None:
    """The batch norm that a function call is; None where it is something else."""
    if func is torch.nn.functional.batch_norm:
        names = ("values", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    elif func in (torch.batch_norm, torch.ops.aten.batch_norm.default):
        names = ("values", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
    else:
        return None
    given: dict[str, Any] = {"weight": None, "bias": None, "training": False, "momentum": 0.1, "eps": 1e-5}
    given |= dict(zip(names, args, strict=False))
    given |= {"values" if name == "input" else name: value for name, value in kwargs.items()}
    return BatchNormCall(**{name: given[name] for name in names})


class BatchNormRecorder(TorchFunctionMode):
    """Records the channels of every batch norm that is called and takes its statistics from the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.channels: list[int] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function, and record it if it is a batch norm."""
        norm = batch_norm_call(func, args, kwargs or {})
        if norm is not None and norm.uses_batch:
            self.channels.append(norm.channels)
        return func(*args, **(kwargs or {}))
