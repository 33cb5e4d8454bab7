# ruff: noqa: SLF001 (nn.Module has no public door to what `.double()` does)
"""A module in another dtype, as ``.double()`` and ``.float()`` cast it: floats alone.

``.to(dtype)`` also casts complex numbers, such as a table of rotations, and drops their imaginary parts.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def cast_floats(module: Module, dtype: torch.dtype, device: torch.device | None = None) -> Module:
    """The module itself, its floats in a dtype, all of it on a device."""

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    module._apply(cast)  # type: ignore[no-untyped-call]
    return module
