"""AlexNet in one column, as in Krizhevsky's "One weird trick" (2014): no local response normalisation.

At 224 pixels a side it is the published network. Smaller images shrink less in conv1, and fc6 takes
what is left after pool5: 2x2 maps for 64 pixels (Tiny ImageNet, as in HierTrain) and for 32 pixels.
"""

from __future__ import annotations

from torch import nn

from palmette.zoo.networks.building_blocks import build_sequential, conv, early_stride, fc, pooled_size


def alexnet(size: int, classes: int, channels: int) -> nn.Sequential:
    """AlexNet: five convolutions and three fully connected layers."""
    stride = early_stride(size)
    side = pooled_size(size + 4, 11, stride)
    for _ in range(3):
        side = pooled_size(side, 3, 2)
    return build_sequential(
        [
            ("conv1", conv(channels, 64, 11, stride, padding=2)),
            ("pool1", nn.MaxPool2d(3, 2)),
            ("conv2", conv(64, 192, 5, padding=2)),
            ("pool2", nn.MaxPool2d(3, 2)),
            ("conv3", conv(192, 384, 3, padding=1)),
            ("conv4", conv(384, 256, 3, padding=1)),
            ("conv5", conv(256, 256, 3, padding=1)),
            ("pool5", nn.Sequential(nn.MaxPool2d(3, 2), nn.Flatten())),
            ("fc6", fc(256 * side * side, 4096, dropout=0.5)),
            ("fc7", fc(4096, 4096, dropout=0.5)),
            ("fc8", nn.Linear(4096, classes)),
        ]
    )
