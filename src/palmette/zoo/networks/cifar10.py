"""The small network of TensorFlow's old CIFAR-10 tutorial, one of the five that Gu et al. train."""

from __future__ import annotations

from torch import nn

from palmette.zoo.networks.building_blocks import build_sequential, conv, early_stride, fc


def cifar10(size: int, classes: int, channels: int) -> nn.Sequential:
    """Two convolutions, each with pooling and local response normalisation, and three fully connected layers."""
    stride = early_stride(size)
    side = -(-size // (4 * stride))
    return build_sequential(
        [
            ("conv1", conv(channels, 64, 5, stride, padding=2)),
            ("pool1", nn.Sequential(nn.MaxPool2d(3, 2, padding=1), norm())),
            ("conv2", conv(64, 64, 5, padding=2)),
            ("pool2", nn.Sequential(norm(), nn.MaxPool2d(3, 2, padding=1), nn.Flatten())),
            ("fc3", fc(64 * side * side, 384)),
            ("fc4", fc(384, 192)),
            ("fc5", nn.Linear(192, classes)),
        ]
    )


def norm() -> nn.LocalResponseNorm:
    """The tutorial's normalisation: four maps to either side; torch divides alpha by the window."""
    return nn.LocalResponseNorm(9, alpha=1e-3, beta=0.75, k=1.0)
