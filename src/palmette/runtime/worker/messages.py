"""Packs tensors into the bytes of one message, and lists the tensors of a layer that are sent with its weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


def pack(tensors: Iterable[Tensor]) -> Tensor:
    """The bytes of tensors of any dtype, concatenated."""
    parts = [tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def packed_bytes(like: Iterable[Tensor]) -> int:
    """The packed size of tensors like these, in bytes."""
    return sum(tensor.numel() * tensor.element_size() for tensor in like)


def unpack(message: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in a message, with the dtypes and shapes of those in ``like``."""
    parts = torch.split(message, [packed_bytes([tensor]) for tensor in like])
    # Cloned, since a slice of the message may not be aligned for its dtype.
    return [part.clone().view(tensor.dtype).view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def weights_of(module: nn.Module) -> list[Tensor]:
    """The trainable weights of a layer."""
    return [weight for weight in module.parameters() if weight.requires_grad]


def buffers_of(module: nn.Module) -> list[Tensor]:
    """The persistent buffers of a layer, such as the running statistics of batch norm."""
    kept = module.state_dict(keep_vars=True).values()
    return [tensor for tensor in kept if not isinstance(tensor, nn.Parameter)]


def state_of(modules: Iterable[nn.Module]) -> list[Tensor]:
    """All that training changes in these layers: the trainable weights of each, then its buffers."""
    return [tensor for module in modules for tensor in (*weights_of(module), *buffers_of(module))]


def load_into(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into tensors, in the same order."""
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
