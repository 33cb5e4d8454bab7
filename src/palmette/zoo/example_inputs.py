"""Two samples to run a user's module on, where only their shape is known, or not even that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from palmette.errors import Argument, Fault, InputError, Message
from palmette.zoo.capture.bundle import Bundle, Example
from palmette.zoo.capture.trial_runs import preserve_state


def custom_example(name: str, module: nn.Module, input_shape: Sequence[int] | None) -> Example:
    """Two samples of what a module takes: of a given shape, or of its own, or its ``dummy_inputs`` (transformers)."""
    shape = input_shape if input_shape is not None else getattr(module, "input_shape", None)
    if shape is not None:
        checked = checked_shape(shape)
        return example_input(checked, input_dtype(name, module, checked))
    dummy = getattr(module, "dummy_inputs", None)
    if isinstance(dummy, Mapping) and all(isinstance(each, Tensor) for each in dummy.values()):
        return {key: each[torch.arange(2) % len(each)] for key, each in dummy.items()}
    expected = Message("has no input_shape; give one, e.g. ", Argument("input_shape"), " 3,32,32")
    raise InputError(Fault("model", name, expected))


def checked_shape(shape: object) -> tuple[int, ...]:
    """The shape as a tuple, if it consists of positive integers."""
    if isinstance(shape, Sequence) and all(isinstance(side, int) and side > 0 for side in shape):
        return tuple(shape)
    raise InputError(Fault("input-shape", shape, "expected whole numbers of 1 or more, e.g. 3,32,32"))


def input_dtype(name: str, module: nn.Module, shape: tuple[int, ...]) -> torch.dtype:
    """The dtype that a module takes: its ``input_dtype``, else that of its weights, or integers where it needs them."""
    declared = getattr(module, "input_dtype", None)
    if declared is None:
        weights = (weight.dtype for weight in module.parameters() if weight.is_floating_point())
        taken = next(weights, torch.get_default_dtype())
        return torch.long if not runs_on(module, shape, taken) and runs_on(module, shape, torch.long) else taken
    if not isinstance(declared, torch.dtype):
        raise InputError(Fault("model", name, f"has input_dtype {declared!r}; expected a dtype such as torch.long"))
    return declared


def runs_on(module: nn.Module, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    """Whether a module takes inputs of a dtype."""
    if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
        return True
    return runs(module, (example_input(shape, dtype),))


def runs(module: nn.Module, batch: Bundle) -> bool:
    """Whether a module does not fail on a batch."""
    try:
        with preserve_state(module), torch.no_grad():
            module(*batch)
    except Exception:  # noqa: BLE001 (a user's module may raise anything)
        return False
    return True


def example_input(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Two samples to run a network on; integers are 0 and 1, which every vocabulary has."""
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.rand(2, *shape, generator=generator).to(dtype)
    return torch.randint(0, 2, (2, *shape), generator=generator).to(dtype)


def comma_separated(shape: Sequence[int]) -> str:
    """A shape as the command line takes it."""
    return ",".join(map(str, shape))
