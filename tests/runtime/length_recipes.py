"""Recipes whose batches are as long as the longest of their samples, with networks that notice how long that is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import palmette as pt
from tests.runtime.recipes import SAMPLES, Ragged

CLASSES = 3


class Sentences(Ragged):
    """Token sequences of 1 to 9 tokens, each with a class."""

    def __getitem__(self, k: int) -> Any:
        return self.items[k], int(self.items[k].sum()) % CLASSES


def padded(items: list[tuple[Tensor, int]]) -> tuple[dict[str, Tensor], Tensor]:
    """Tokens and their mask, as long as the longest of the batch."""
    tokens = nn.utils.rnn.pad_sequence([tokens for tokens, _ in items], batch_first=True)
    return {"tokens": tokens, "mask": tokens > 0}, torch.tensor([label for _, label in items])


class Encoder(nn.Module):
    """A small transformer with positions and a padding mask; its pooling divides by the length of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(50, 8), nn.Parameter(torch.randn(16, 8) / 4)
        block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(block, 2, enable_nested_tensor=False), nn.Linear(8, CLASSES)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        hidden = self.embedding(tokens) + self.position[: tokens.shape[1]]
        hidden = self.encoder(hidden, src_key_padding_mask=~mask) * mask.unsqueeze(-1)
        return self.head(hidden.sum(1) / tokens.shape[1])


class Recurrent(nn.Module):
    """An LSTM whose last state has seen the padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.one = nn.Embedding(50, 8), nn.LSTM(8, 8, batch_first=True)
        self.two, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.one(self.embedding(tokens))
        hidden, _ = self.two(torch.tanh(hidden))
        return self.head(hidden[:, -1])


def padded_left(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Tokens alone, with padding before them."""
    tokens = nn.utils.rnn.pad_sequence([tokens for tokens, _ in items], batch_first=True, padding_side="left")
    return tokens, torch.tensor([label for _, label in items])


class Denoiser(nn.Module):
    """A number for every token; its loss is a mean over all, padding included."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.one, self.two = nn.Embedding(50, 8), nn.Linear(8, 8), nn.Linear(8, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = torch.tanh(self.one(self.embedding(tokens)))
        return self.two(hidden - hidden.mean(1, keepdim=True)).view(tokens.shape[0], tokens.shape[1])


def padded_numbers(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
    """Tokens, and their own numbers to become."""
    tokens = nn.utils.rnn.pad_sequence([tokens for tokens, _ in items], batch_first=True)
    return tokens, tokens.float() / 50


def _recipe(model: Any, collate: Any, loss: Any = None, transform: Any = None) -> pt.Recipe:
    data = Sentences(SAMPLES, 4), Sentences(9, 5)
    return pt.Recipe(model=model, data=data, loss=loss or nn.CrossEntropyLoss(), collate=collate, transform=transform)


def shifted(tokens: Tensor) -> Tensor:
    """Every token by itself: a shorter sample becomes the same, only shorter."""
    return (tokens * 7 + 1) % 50


def turned(tokens: Tensor) -> Tensor:
    """From the last to the first: what it makes of padding depends on how long that is."""
    return tokens.flip(0)


encoder = _recipe(Encoder, padded)
recurrent = _recipe(Recurrent, padded_left)
denoiser = _recipe(Denoiser, padded_numbers, nn.MSELoss())
shifting = _recipe(Recurrent, padded_left, transform=shifted)
turning = _recipe(Recurrent, padded_left, transform=turned)
