"""The networks that are trained. Nothing but PyTorch is imported, as Flower's environment has nothing else."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CONTEXT, WIDTH, HEADS = 32, 64, 4


def small_vgg() -> nn.Module:
    """Four convolutions and a linear layer: 70,000 weights."""

    def block(before: int, after: int, *, pool: bool = True) -> nn.Sequential:
        parts = [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
        return nn.Sequential(*parts, *([nn.MaxPool2d(2)] if pool else []))

    return nn.Sequential(
        block(3, 16), block(16, 32), block(32, 64), block(64, 64, pool=False), nn.Flatten(), nn.Linear(1024, 10)
    )


class _Embedding(nn.Module):
    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(symbols, WIDTH), nn.Parameter(0.02 * torch.randn(CONTEXT, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.token(tokens) + self.place
        return found


class _Block(nn.Module):
    """Causal attention and a perceptron, each behind a norm, as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mixed, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, values: Tensor) -> Tensor:
        parts = self.mixed(self.first(values)).unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        values = values + self.out(seen.transpose(1, 2).flatten(2))
        found: Tensor = values + self.wide(self.second(values))
        return found


class _Head(nn.Module):
    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, symbols)

    def forward(self, values: Tensor) -> Tensor:
        found: Tensor = self.out(self.norm(values[:, -1]))
        return found


def small_gpt(symbols: int) -> nn.Module:
    """Two blocks of causal attention between an embedding and a head: 105,000 weights."""
    return nn.Sequential(_Embedding(symbols), _Block(), _Block(), _Head(symbols))
