"""Tensors as the raw bytes of one message, and which tensors of a layer travel when weights do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


def pack(tensors: Iterable[Tensor]) -> Tensor:
    """The bytes of tensors of any types, one after the other."""
    parts = [tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8) for tensor in tensors]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def packed_bytes(like: Iterable[Tensor]) -> int:
    """How many bytes tensors like these have."""
    return sum(tensor.numel() * tensor.element_size() for tensor in like)


def unpack(message: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in a message, of the types and shapes of those in ``like``."""
    parts = torch.split(message, [packed_bytes([tensor]) for tensor in like])
    # A copy begins where any type may begin; a slice of the message need not.
    return [part.clone().view(tensor.dtype).view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def weights_of(module: nn.Module) -> list[Tensor]:
    """The weights of a layer that training changes."""
    return [weight for weight in module.parameters() if weight.requires_grad]


def buffers_of(module: nn.Module) -> list[Tensor]:
    """What a layer keeps beside its weights, such as the statistics of batch norm."""
    kept = module.state_dict(keep_vars=True).values()
    return [tensor for tensor in kept if not isinstance(tensor, nn.Parameter)]


def state_of(modules: Iterable[nn.Module]) -> list[Tensor]:
    """All that training changes in some layers: of each its weights, then its buffers."""
    return [tensor for module in modules for tensor in (*weights_of(module), *buffers_of(module))]


def load_into(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into tensors, in the same order."""
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
