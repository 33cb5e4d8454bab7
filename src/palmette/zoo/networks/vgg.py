"""VGG (Simonyan and Zisserman, 2014), without batch norm: configurations A, D and E of the paper, and a small A."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from palmette.zoo.networks.building_blocks import build_sequential, conv, fc

WIDTHS = (64, 128, 256, 512, 512)
SMALL_WIDTHS = (8, 16, 32, 64, 64)


def vgg11(size: int, classes: int, channels: int) -> nn.Sequential:
    """VGG-11: eight convolutions and three fully connected layers."""
    return vgg((1, 1, 2, 2, 2), size, classes, channels)


def vgg11small(size: int, classes: int, channels: int) -> nn.Sequential:
    """VGG-11 with an eighth of the maps and small hidden layers, without dropout: trained in minutes on one core."""
    side = size // 32
    return build_sequential(
        [
            *convolutions((1, 1, 2, 2, 2), channels, SMALL_WIDTHS),
            ("fc6", fc(64 * side * side, 128)),
            ("fc7", fc(128, 128)),
            ("fc8", nn.Linear(128, classes)),
        ]
    )


def vgg16(size: int, classes: int, channels: int) -> nn.Sequential:
    """VGG-16: thirteen convolutions and three fully connected layers."""
    return vgg((2, 2, 3, 3, 3), size, classes, channels)


def vgg19(size: int, classes: int, channels: int) -> nn.Sequential:
    """VGG-19: sixteen convolutions and three fully connected layers."""
    return vgg((2, 2, 4, 4, 4), size, classes, channels)


def vgg(depths: tuple[int, ...], size: int, classes: int, channels: int) -> nn.Sequential:
    """The network with so many convolutions before each of its five poolings."""
    side = size // 32
    return build_sequential(
        [
            *convolutions(depths, channels),
            ("fc6", fc(512 * side * side, 4096, dropout=0.5)),
            ("fc7", fc(4096, 4096, dropout=0.5)),
            ("fc8", nn.Linear(4096, classes)),
        ]
    )


def convolutions(
    depths: tuple[int, ...], channels: int, widths: tuple[int, ...] = WIDTHS
) -> Iterator[tuple[str, nn.Module]]:
    """The layers up to the last pooling, which also flattens."""
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True), 1):
        for step in range(1, depth + 1):
            yield f"conv{stage}_{step}", conv(channels, width, 3, padding=1)
            channels = width
        pool = nn.MaxPool2d(2)
        yield f"pool{stage}", pool if stage < len(depths) else nn.Sequential(pool, nn.Flatten())
