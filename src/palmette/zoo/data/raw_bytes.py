"""Tensors as raw bytes, in this machine's byte order, and back; nothing in them is ever executed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from palmette.zoo.data.base import Shape, data_error


def to_bytes(tensor: Tensor) -> bytes:
    """The numbers of a tensor, row by row."""
    raw: bytes = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return raw


def from_bytes(stored: Sequence[bytes], shape: Shape, dtype: torch.dtype) -> Tensor:
    """Tensors of one shape and dtype, as N × ``shape``.

    Raises:
        InputError: one has another number of bytes.
    """
    size_bytes = prod(shape) * dtype.itemsize
    wrong = next((len(each) for each in stored if len(each) != size_bytes), None)
    if wrong is not None:
        raise data_error("a stored sample", f"has {wrong} bytes; expected {size_bytes}")
    if not stored:
        return torch.empty(0, *shape, dtype=dtype)
    return torch.frombuffer(bytearray().join(stored), dtype=dtype).reshape(-1, *shape)
