"""Network in Network (Lin et al., 2013): the paper's network for CIFAR-10.

Larger images are shrunk by a stride in conv1; the mean over each class's map takes any side.
"""

from __future__ import annotations

from torch import nn

from palmette.zoo.networks.building_blocks import build_sequential, conv, early_stride, global_pool


def nin(size: int, classes: int, channels: int) -> nn.Sequential:
    """Network in Network: three convolutions, each followed by two of 1x1, and no fully connected layer."""
    return build_sequential(
        [
            ("conv1", conv(channels, 192, 5, early_stride(size), padding=2)),
            ("mlp1a", conv(192, 160, 1)),
            ("mlp1b", conv(160, 96, 1)),
            ("pool1", nn.Sequential(nn.MaxPool2d(3, 2, padding=1), nn.Dropout(0.5))),
            ("conv2", conv(96, 192, 5, padding=2)),
            ("mlp2a", conv(192, 192, 1)),
            ("mlp2b", conv(192, 192, 1)),
            ("pool2", nn.Sequential(nn.AvgPool2d(3, 2, padding=1), nn.Dropout(0.5))),
            ("conv3", conv(192, 192, 3, padding=1)),
            ("mlp3a", conv(192, 192, 1)),
            ("mlp3b", conv(192, classes, 1)),
            ("pool3", global_pool()),
        ]
    )
