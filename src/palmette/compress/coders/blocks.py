"""Consecutive numbers that share a scale."""

from __future__ import annotations

import torch
from torch import Tensor


def in_blocks(flat: Tensor, block: int) -> Tensor:
    """Numbers as rows of a block each, the last filled with zeros."""
    return torch.nn.functional.pad(flat, (0, -flat.numel() % block)).view(-1, block)
