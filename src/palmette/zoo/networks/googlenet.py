"""GoogLeNet (Szegedy et al., 2014), without batch norm and without its auxiliary heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palmette.zoo.networks.building_blocks import build_sequential, conv, early_stride, global_pool

# Table 1 of the paper: #1x1, #3x3 reduce, #3x3, #5x5 reduce, #5x5, pool proj.
WIDTHS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


class Inception(nn.Module):
    """Four views of the same maps, side by side: 1x1, 3x3, 5x5 and pooled."""

    def __init__(self, inputs: int, widths: tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        one, reduce3, three, reduce5, five, pool = widths
        self.one = conv(inputs, one, 1)
        self.three = nn.Sequential(conv(inputs, reduce3, 1), conv(reduce3, three, 3, padding=1))
        self.five = nn.Sequential(conv(inputs, reduce5, 1), conv(reduce5, five, 5, padding=2))
        self.pool = nn.Sequential(nn.MaxPool2d(3, 1, padding=1), conv(inputs, pool, 1))

    def forward(self, x: Tensor) -> Tensor:
        """The views, one after the other along the maps."""
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], dim=1)


def googlenet(size: int, classes: int, channels: int) -> nn.Sequential:
    """GoogLeNet: three convolutions, nine inception modules, one fully connected layer."""
    layers = stem(early_stride(size), channels)
    inputs = 192
    for name, widths in WIDTHS.items():
        if name in ("4a", "5a"):
            layers.append((f"pool{int(name[0]) - 1}", nn.MaxPool2d(3, 2, ceil_mode=True)))
        layers.append((f"inception{name}", Inception(inputs, widths)))
        inputs = widths[0] + widths[2] + widths[4] + widths[5]
    return build_sequential([*layers, ("pool5", global_pool(dropout=0.4)), ("fc", nn.Linear(inputs, classes))])


def stem(stride: int, channels: int) -> list[tuple[str, nn.Module]]:
    """The layers before the first inception module; without pool1 where the images are small."""
    norm = nn.LocalResponseNorm(5)
    first: nn.Module = nn.Sequential(nn.MaxPool2d(3, 2, ceil_mode=True), norm) if stride == 4 else norm
    return [
        ("conv1", conv(channels, 64, 7, min(stride, 2), padding=3)),
        ("pool1" if stride == 4 else "norm1", first),
        ("conv2", conv(64, 64, 1)),
        ("conv3", conv(64, 192, 3, padding=1)),
        ("pool2", nn.Sequential(nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2, ceil_mode=True))),
    ]
