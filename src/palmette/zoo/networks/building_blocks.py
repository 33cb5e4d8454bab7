"""What several families share: common layers, the stem for small images, initial weights.

Published networks were drawn for 224 pixels a side: their first layers shrink the image by four, at once.
On smaller images that leaves the deep layers with maps of a single pixel, so those first strides are
dropped, one after the other, which is what the literature does for CIFAR and Tiny ImageNet:

    size   224   96 | 95   48 | 47   32   16
    early    4      |    2    |     1
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from torch import nn

LAST_WEIGHTS_STD = 0.1  # over the root of the number of inputs, where He's is √2


def early_stride(size: int) -> int:
    """How much the first layers shrink an image of ``size`` pixels a side: 4, 2 or 1."""
    if size >= 96:
        return 4
    return 2 if size >= 48 else 1


def pooled_size(size: int, kernel: int, stride: int) -> int:
    """The output size of an unpadded window on a map of ``size``."""
    return (size - kernel) // stride + 1


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> nn.Sequential:
    """A convolution with its activation."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU())


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the side (up to its stride), with batch norm and activation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def fc(inputs: int, outputs: int, dropout: float = 0.0) -> nn.Sequential:
    """A hidden fully connected layer: its activation, and dropout where it has any."""
    return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else []))


def global_pool(dropout: float = 0.0) -> nn.Sequential:
    """The mean of each map, as a flat vector, and dropout where it has any."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), *([nn.Dropout(dropout)] if dropout else []))


def build_sequential(layers: Iterable[tuple[str, nn.Module]]) -> nn.Sequential:
    """The named layers as one network, with He's initial weights and PyTorch's biases.

    Biases of zero would leave every empty patch of an image at exactly zero before its activation, where rounding
    decides on which side it falls: the same training, cut differently, would soon diverge. The last weights
    start near zero, so that a fresh network finds all classes about as likely; He's would make the first loss several
    times as large and the first steps unstable.
    """
    whole = nn.Sequential(OrderedDict(layers))
    weighted = [module for module in whole.modules() if isinstance(module, (nn.Conv2d, nn.Linear))]
    for module in weighted:
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    nn.init.normal_(weighted[-1].weight, std=LAST_WEIGHTS_STD / weighted[-1].weight[0].numel() ** 0.5)
    return whole
