"""LeNet-5, layer by layer that of Palmette's zoo."""

from __future__ import annotations

from torch import nn


def lenet5() -> nn.Sequential:
    """The network for images of 3 x 32 x 32 in ten classes."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )
