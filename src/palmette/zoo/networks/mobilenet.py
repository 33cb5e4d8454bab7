"""MobileNet (Howard et al., 2017), width 1.0: each depthwise and each pointwise convolution is a layer."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from palmette.zoo.networks.building_blocks import build_sequential, conv_norm, early_stride, global_pool

WIDTHS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
HALVED = (2, 4, 6, 12)


def mobilenet(size: int, classes: int, channels: int) -> nn.Sequential:
    """MobileNet: a convolution, thirteen separable ones, one fully connected layer."""
    early = early_stride(size)
    return build_sequential(
        [
            ("conv1", conv_norm(channels, 32, 3, min(early, 2))),
            *separable(early),
            ("pool", global_pool()),
            ("fc", nn.Linear(1024, classes)),
        ]
    )


def separable(early: int) -> Iterator[tuple[str, nn.Module]]:
    """The separable convolutions; the first halving falls away where the images are small."""
    inputs = 32
    for step, outputs in enumerate(WIDTHS, 1):
        halved = step in HALVED and (early == 4 or step != HALVED[0])
        yield f"depth{step}", conv_norm(inputs, inputs, 3, 2 if halved else 1, groups=inputs)
        yield f"point{step}", conv_norm(inputs, outputs, 1)
        inputs = outputs
