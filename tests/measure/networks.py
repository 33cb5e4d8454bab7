"""Small networks whose sizes can be worked out by hand."""

from __future__ import annotations

import torch
from torch import nn

from palmette.zoo.capture import cut
from palmette.zoo.example_inputs import example_input
from palmette.zoo.models import Network


def network(*children: nn.Module, shape: tuple[int, ...]) -> Network:
    """The children as layers of a network called ``hand``."""
    return Network("hand", cut(nn.Sequential(*children), example_input(shape, torch.float32)), shape, torch.float32)


def tiny() -> Network:
    """Four layers on eight numbers: without weights, with them, and both again."""
    return network(nn.Flatten(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2), shape=(2, 4))
