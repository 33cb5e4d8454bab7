"""Networks and data of a user's own, for runs: named on the command line as ``tests.runtime.networks:callable``."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn

from palmette.zoo.data import load_data


def tiny() -> nn.Module:
    """Five layers on 8×8 images: with weights, without, with dropout."""
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Tanh())),
        ("pool1", nn.MaxPool2d(2)),
        ("conv2", nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Dropout2d(0.1))),
        ("fc1", nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Dropout(0.3))),
        ("fc2", nn.Linear(12, 10)),
    ]
    return _sized(nn.Sequential(OrderedDict(layers)))


class Roomy(nn.Module):
    """Needs a gigabyte of addresses for a moment, at every call."""

    def forward(self, values: Tensor) -> Tensor:
        return _with_room(values)


def _with_room(values: Tensor) -> Tensor:
    torch.empty(1 << 28)
    return values


torch.fx.wrap("_with_room")


def roomy() -> nn.Module:
    """The tiny network, with a first layer that needs room."""
    network = tiny()
    network.conv1.append(Roomy())  # type: ignore[operator]
    return network


class Residual(nn.Module):
    """Two blocks with shortcuts and dropout, between a convolution and a head."""

    class Block(nn.Module):
        def __init__(self, wide: int) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(wide, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding=1)
            self.act, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.2)

        def forward(self, x: Tensor) -> Tensor:
            return self.act(x + self.drop(self.two(self.act(self.one(x)))))

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1)
        self.first, self.second = self.Block(4), self.Block(4)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.first(self.stem(x)))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 2).flatten(1))


def residual() -> nn.Module:
    return _sized(Residual())


class Fails(nn.Module):
    """Fails once it has been called with more than ten samples, as a real error would: not when it is tried out."""

    def forward(self, values: Tensor) -> Tensor:
        if len(values) > 10:
            _fail()
        return values


def _fail() -> None:
    raise ValueError("something is\nwrong here")


torch.fx.wrap("_fail")


class Greedy(nn.Module):
    """Wants more memory than any machine has, once it sees a real batch."""

    def forward(self, values: Tensor) -> Tensor:
        if len(values) > 10:
            return values + torch.empty(1 << 50)[:1]
        return values


class Astray(nn.Module):
    """Gives what is not a number, once it sees a real batch."""

    def forward(self, values: Tensor) -> Tensor:
        return values * float("nan") if len(values) > 10 else values


def _with(odd: nn.Module) -> nn.Module:
    return _sized(nn.Sequential(OrderedDict([("flat", nn.Flatten()), ("odd", odd), ("fc", nn.Linear(64, 10))])))


def fails() -> nn.Module:
    return _with(Fails())


def greedy() -> nn.Module:
    return _with(Greedy())


def astray() -> nn.Module:
    return _with(Astray())


def unpicklable() -> nn.Module:
    odd = nn.Identity()
    odd.secret = threading.Lock()  # type: ignore[assignment]
    return _with(odd)


def three_classes() -> nn.Module:
    return _sized(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)))


def _sized(module: nn.Module) -> nn.Module:
    module.input_shape = (1, 8, 8)  # type: ignore[assignment]
    return module


class Labelled:
    """Noise with labels from 0 to ``most``."""

    def __init__(self, most: int, many: int = 60) -> None:
        self.most, self.many = most, many

    def __len__(self) -> int:
        return self.many

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return torch.full((1, 8, 8), index / self.many), index % (self.most + 1)


def small_digits() -> list[tuple[Tensor, int]]:
    """The digits from 0 to 4."""
    return _digits(range(5))


def large_digits() -> list[tuple[Tensor, int]]:
    """Some of the digits from 5 to 9."""
    return _digits(range(5, 10))[:300]


def turned_digits() -> list[tuple[Tensor, int]]:
    """The digits from 0 to 4, upside down."""
    return [(image.flip(1, 2), label) for image, label in small_digits()]


def _digits(kept: range) -> list[tuple[Tensor, int]]:
    part = load_data("digits", (1, 8, 8)).train
    return [sample for k in range(len(part)) if (sample := part[k])[1] in kept]


def labels_to_eleven() -> Labelled:
    return Labelled(11)


def flat_images() -> list[tuple[Tensor, int]]:
    return [(torch.zeros(64), 0)] * 20


class Late(nn.Module):
    """Takes some seconds over a real batch; not in a main thread, where a test does the same sums."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def forward(self, values: Tensor) -> Tensor:
        return _late(values, self.seconds)


def _late(values: Tensor, seconds: float) -> Tensor:
    if len(values) > 2 and threading.current_thread() is not threading.main_thread():
        time.sleep(seconds)
    return values


torch.fx.wrap("_late")


def slow() -> nn.Module:
    """The tiny network, with a first layer that takes its time."""
    network = tiny()
    network.conv1.append(Late(0.03))  # type: ignore[operator]
    return network


class Attention(nn.Module):
    """Self-attention with two heads, written out; with ``rank``, queries and values have adapters."""

    def __init__(self, wide: int, rank: int = 0) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(wide, wide) for _ in range(3))
        if rank:
            self.query, self.value = Adapted(self.query, rank), Adapted(self.value, rank)  # type: ignore[assignment]
        self.out = nn.Linear(wide, wide)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            each(x).unflatten(2, (2, -1)).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        found = torch.softmax(query @ key.transpose(2, 3) / 2.0, 3) @ value
        return self.out(found.transpose(1, 2).flatten(2))


class Adapted(nn.Module):
    """LoRA: a linear layer that stays as it is, and beside it two thin ones that learn."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down, self.up = (
            nn.Linear(base.in_features, rank, bias=False),
            nn.Linear(rank, base.out_features, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + 0.5 * self.up(self.down(x))


class Encoder(nn.Module):
    """A transformer's block."""

    def __init__(self, wide: int, rank: int = 0, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(wide), nn.LayerNorm(wide)
        self.attention = Attention(wide, rank)
        self.mlp = nn.Sequential(nn.Linear(wide, 2 * wide), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * wide, wide))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """A small vision transformer: patches of 4×4, a class token, two blocks, a head."""

    def __init__(self, wide: int = 8, rank: int = 0, dropout: float = 0.1) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, wide, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, wide))
        self.place = nn.Parameter(torch.randn(1, 5, wide))
        self.blocks = nn.ModuleList([Encoder(wide, rank, dropout) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(wide), nn.Linear(wide, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def vit() -> nn.Module:
    """A vision transformer whose head alone learns."""
    network = Vit()
    network.requires_grad_(requires_grad=False)
    network.head.requires_grad_(requires_grad=True)
    return _sized(network)


def adapters() -> nn.Module:
    """A vision transformer of which only adapters in its attention learn, and the head."""
    network = Vit(rank=2)
    for name, weight in network.named_parameters():
        weight.requires_grad_(".down." in name or ".up." in name or name.startswith("head"))
    return _sized(network)


def with_peft() -> nn.Module:
    """A vision transformer with adapters of the package peft, without chance: torch.export keeps no dropout layers."""
    from peft import LoraConfig, inject_adapter_in_model

    made = inject_adapter_in_model(LoraConfig(r=2, target_modules=["query", "value"]), Vit(dropout=0.0))
    return _sized(made)


def headed() -> nn.Module:
    """Convolutions with batch norm of which nothing learns, and a head of two layers that does."""
    layers: list[tuple[str, nn.Module]] = [
        ("conv1", nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))),
        ("conv2", nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU())),
        ("fc1", nn.Sequential(nn.Flatten(), nn.Linear(96, 12), nn.Tanh())),
        ("fc2", nn.Linear(12, 10)),
    ]
    network = nn.Sequential(OrderedDict(layers))
    for layer in network[:2]:
        layer.requires_grad_(requires_grad=False)
    return _sized(network)


def all_frozen() -> nn.Module:
    """The tiny network, of which nothing learns."""
    return tiny().requires_grad_(requires_grad=False)


class NormedBlock(nn.Module):
    """A residual block with a batch norm after each convolution, and one on the shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(inputs, outputs, 3, 2, 1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, 2), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.two(torch.relu(self.norm1(self.one(x)))))
        return torch.relu(inner + self.shortcut(x))


def normed() -> nn.Module:
    """A small residual network with five batch norms, as users have them."""
    layers: list[tuple[str, nn.Module]] = [
        ("stem", nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())),
        ("block", NormedBlock(8, 16)),
        ("pool", nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.BatchNorm1d(64))),
        ("head", nn.Linear(64, 10)),
    ]
    return _sized(nn.Sequential(OrderedDict(layers)))
