"""SqueezeNet 1.1 (Iandola et al., 2016, and its authors' later release)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from palmette.zoo.networks.building_blocks import build_sequential, conv, early_stride, global_pool


class Fire(nn.Module):
    """A squeeze to few maps, then 1x1 and 3x3 convolutions side by side."""

    def __init__(self, inputs: int, squeezed: int, outputs: int) -> None:
        super().__init__()
        self.squeeze = conv(inputs, squeezed, 1)
        self.expand1 = conv(squeezed, outputs // 2, 1)
        self.expand3 = conv(squeezed, outputs // 2, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Both expansions, one after the other along the maps."""
        squeezed = self.squeeze(x)
        return torch.cat([self.expand1(squeezed), self.expand3(squeezed)], dim=1)


def squeezenet(size: int, classes: int, channels: int) -> nn.Sequential:
    """SqueezeNet: a convolution, eight fire modules, and a convolution that classifies."""
    return build_sequential(
        [
            *stem(early_stride(size), channels),
            ("fire2", Fire(64, 16, 128)),
            ("fire3", Fire(128, 16, 128)),
            ("pool3", nn.MaxPool2d(3, 2, ceil_mode=True)),
            ("fire4", Fire(128, 32, 256)),
            ("fire5", Fire(256, 32, 256)),
            ("pool5", nn.MaxPool2d(3, 2, ceil_mode=True)),
            ("fire6", Fire(256, 48, 384)),
            ("fire7", Fire(384, 48, 384)),
            ("fire8", Fire(384, 64, 512)),
            ("fire9", nn.Sequential(Fire(512, 64, 512), nn.Dropout(0.5))),
            ("conv10", conv(512, classes, 1)),
            ("pool10", global_pool()),
        ]
    )


def stem(stride: int, channels: int) -> Iterator[tuple[str, nn.Module]]:
    """The layers before the first fire module; without pool1 where the images are small."""
    yield "conv1", conv(channels, 64, 3, min(stride, 2))
    if stride == 4:
        yield "pool1", nn.MaxPool2d(3, 2, ceil_mode=True)
