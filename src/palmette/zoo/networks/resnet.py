"""ResNet (He et al., 2015) with basic blocks; the projection of a shortcut is the paper's option B.

Images too small for the published start (7x7 convolution by two, pooling by two) lose the pooling first,
then the stride, where a 3x3 convolution takes its place, as is usual for CIFAR.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from palmette.zoo.networks.building_blocks import build_sequential, conv_norm, early_stride, global_pool


class Block(nn.Module):
    """Two 3x3 convolutions around which a shortcut leads."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv_norm(inputs, outputs, 3, stride)
        self.conv2 = conv_norm(outputs, outputs, 3)[:2]
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = conv_norm(inputs, outputs, 1, stride)[:2]
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Both ways, added."""
        out: Tensor = self.relu(self.conv2(self.conv1(x)) + self.shortcut(x))
        return out


def resnet18(size: int, classes: int, channels: int) -> nn.Sequential:
    """ResNet-18: two blocks at each of four widths."""
    return resnet((2, 2, 2, 2), size, classes, channels)


def resnet34(size: int, classes: int, channels: int) -> nn.Sequential:
    """ResNet-34: three, four, six and three blocks at its four widths."""
    return resnet((3, 4, 6, 3), size, classes, channels)


def resnet(depths: tuple[int, ...], size: int, classes: int, channels: int) -> nn.Sequential:
    """The network with so many blocks at each width."""
    return build_sequential(
        [
            *stem(early_stride(size), channels),
            *blocks(depths),
            ("pool5", global_pool()),
            ("fc", nn.Linear(512, classes)),
        ]
    )


def stem(stride: int, channels: int) -> Iterator[tuple[str, nn.Module]]:
    """The layers before the first block, which shrink the image by ``stride``."""
    yield "conv1", conv_norm(channels, 64, 7, 2) if stride > 1 else conv_norm(channels, 64, 3)
    if stride == 4:
        yield "pool1", nn.MaxPool2d(3, 2, padding=1)


def blocks(depths: tuple[int, ...]) -> Iterator[tuple[str, nn.Module]]:
    """The blocks; the first of each width but the first halves the side."""
    inputs = 64
    for stage, depth in enumerate(depths):
        for step in range(depth):
            outputs = 64 * 2**stage
            yield f"block{stage + 1}_{step + 1}", Block(inputs, outputs, 2 if stage and not step else 1)
            inputs = outputs
