"""LeNet-5 (LeCun et al., 1998), with the rectifiers and max pooling that are used today."""

from __future__ import annotations

from torch import nn

from palmette.zoo.networks.building_blocks import build_sequential, conv, fc


def lenet5(size: int, classes: int, channels: int) -> nn.Sequential:
    """LeNet-5: two convolutions, each with pooling, and three fully connected layers."""
    side = ((size - 4) // 2 - 4) // 2
    return build_sequential(
        [
            ("conv1", conv(channels, 6, 5)),
            ("pool1", nn.MaxPool2d(2)),
            ("conv2", conv(6, 16, 5)),
            ("pool2", nn.Sequential(nn.MaxPool2d(2), nn.Flatten())),
            ("fc1", fc(16 * side * side, 120)),
            ("fc2", fc(120, 84)),
            ("fc3", nn.Linear(84, classes)),
        ]
    )
