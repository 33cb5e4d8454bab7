"""A small VGG for images of 16×16."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

INPUT_SHAPE = (1, 16, 16)


def vgg() -> nn.Module:
    layers: list[tuple[str, nn.Module]] = []
    inputs = 1
    for stage, width in enumerate((16, 32, 64), 1):
        conv = [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        layers.append((f"conv{stage}", nn.Sequential(*conv, nn.MaxPool2d(2))))
        inputs = width
    layers.append(("fc1", nn.Sequential(nn.Flatten(), nn.Linear(256, 128), nn.ReLU())))
    layers.append(("fc2", nn.Linear(128, 10)))
    whole = nn.Sequential(OrderedDict(layers))
    whole.input_shape = INPUT_SHAPE  # type: ignore[assignment]
    return whole
