"""Recipes as users write them, with other losses and targets than class numbers."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import palmette as pt

SAMPLES = 60


def _inputs(*shape: int) -> Tensor:
    return torch.randn(SAMPLES, *shape, generator=torch.Generator().manual_seed(1))


def _mlp(outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, outputs)
    )


class Items(torch.utils.data.Dataset[Any]):
    """Inputs and what they should become."""

    def __init__(self, inputs: Tensor, targets: Any) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, k: int) -> tuple[Tensor, Any]:
        if isinstance(self.targets, dict):
            return self.inputs[k], {name: values[k] for name, values in self.targets.items()}
        return self.inputs[k], self.targets[k]


def _pair(inputs: Tensor, targets: Any) -> tuple[Items, Items]:
    return Items(inputs, targets), Items(inputs[:7], targets)


regression = pt.Recipe(
    model=lambda: _mlp(2),
    data=_pair(_inputs(6), _inputs(6)[:, :2] * 3),
    loss=nn.MSELoss(),
    metrics={"mae": nn.L1Loss()},
)
decayed = pt.Recipe(
    model=lambda: _mlp(2),
    data=_pair(_inputs(6), _inputs(6)[:, :2] * 3),
    loss=nn.MSELoss(),
    optimizer=functools.partial(torch.optim.AdamW, betas=(0.8, 0.9)),
    lr=0.01,
    groups={"*.bias": {"weight_decay": 0}},
    schedule="cosine",
    warmup=2,
    clip_norm=0.5,
    accumulate=2,
)
multi_label = pt.Recipe(
    model=lambda: _mlp(4),
    data=_pair(_inputs(6), (_inputs(6)[:, :4] > 0.3).float()),
    loss=functional.binary_cross_entropy_with_logits,
)
weighted = pt.Recipe(
    model=lambda: _mlp(3),
    data=_pair(_inputs(6), (_inputs(6)[:, 0] * 2).abs().long().clamp(max=2)),
    loss=nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 3.0])),
)


class Tagger(nn.Module):
    """A class for every token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.one, self.two = nn.Embedding(50, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.two(torch.tanh(self.one(self.embedding(tokens)))).transpose(1, 2)


def _tokens() -> Tensor:
    return torch.randint(0, 50, (SAMPLES, 7), generator=torch.Generator().manual_seed(2))


def _tags() -> Tensor:
    tags = _tokens() % 5
    for k, row in enumerate(tags):
        row[k % 6 + 1 :] = -100  # padding, more or less of it
    return tags


padded_tokens = pt.Recipe(model=Tagger, data=_pair(_tokens(), _tags()), loss=nn.CrossEntropyLoss())
tokens = pt.Recipe(
    model=Tagger,
    data=_pair(_tokens(), _tokens() % 5),
    loss=lambda o, t: nn.functional.cross_entropy(o, t, reduction="none"),
)


def two_heads_loss(outputs: Tensor, targets: dict[str, Tensor]) -> Tensor:
    """One value per sample, of a dict of targets."""
    kind = functional.cross_entropy(outputs[:, :3], targets["kind"], reduction="none")
    return kind + (outputs[:, 3:] - targets["box"]).square().mean(1)


two_heads = pt.Recipe(
    model=lambda: _mlp(5),
    data=_pair(_inputs(6), {"kind": (_inputs(6)[:, 0] > 0).long(), "box": _inputs(6)[:, :2]}),
    loss=two_heads_loss,
)
segmentation = pt.Recipe(
    model=lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 3, 1)
    ),
    data=_pair(_inputs(1, 6, 6), (_inputs(6, 6) > 0).long()),
    loss=lambda outputs, targets: functional.cross_entropy(outputs, targets, reduction="none"),
)
zoo = pt.Recipe(model="lenet5", data="digits")


def augmented(pixels: Tensor, seed: int | None = None) -> Tensor:
    """Bytes of an image as normalised numbers, moved a little in training."""
    image = pixels.float() / 255 - 0.5
    return image if seed is None else image.roll(seed % 3, dims=-1)


def _pixels() -> Tensor:
    return torch.randint(0, 256, (SAMPLES, 1, 6, 6), generator=torch.Generator().manual_seed(3)).to(torch.uint8)


transformed = pt.Recipe(
    model=lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 3)),
    data=_pair(_pixels(), _pixels()[:, 0, 0, 0].long() % 3),
    transform=augmented,
)


class Ragged(torch.utils.data.Dataset[Any]):
    """Token sequences of 1 to 9 tokens, with a tag for each."""

    vocabulary = 50

    def __init__(self, samples: int, seed: int) -> None:
        chance = torch.Generator().manual_seed(seed)
        many = torch.randint(1, 10, (samples,), generator=chance).tolist()
        self.items = [torch.randint(1, 50, (each,), generator=chance) for each in many]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, k: int) -> tuple[Tensor, Tensor]:
        return self.items[k], self.items[k] % 5


def padded_batch(items: list[tuple[Tensor, Tensor]]) -> tuple[dict[str, Tensor], Tensor]:
    """Tokens, their mask, and tags: a collate function as people write it."""
    tokens = nn.utils.rnn.pad_sequence([tokens for tokens, _ in items], batch_first=True)
    tags = nn.utils.rnn.pad_sequence([tags for _, tags in items], batch_first=True, padding_value=-100)
    return {"tokens": tokens, "mask": tokens > 0}, tags


class Attention(nn.Module):
    """A class for every token, by all tokens of its sequence that are no padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.one, self.two = nn.Embedding(50, 8), nn.Linear(8, 8), nn.Linear(8, 5)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        hidden = torch.tanh(self.one(self.embedding(tokens)))
        scores = (hidden @ hidden.transpose(1, 2)).masked_fill(~mask[:, None, :], float("-inf"))
        return self.two(hidden + scores.softmax(-1) @ hidden).transpose(1, 2)


ragged = pt.Recipe(
    model=Attention, data=(Ragged(SAMPLES, 4), Ragged(9, 5)), loss=nn.CrossEntropyLoss(), collate=padded_batch
)
uncollated = pt.Recipe(model=Tagger, data=(Ragged(SAMPLES, 4), Ragged(9, 5)), loss=nn.CrossEntropyLoss())


class RaggedDicts(Ragged):
    """The same as dicts, as the data sets of transformers have them."""

    def __getitem__(self, k: int) -> Any:
        return {"tokens": self.items[k], "labels": self.items[k] % 5}


def padded_dicts(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """A collate function that returns a dict, labels included."""
    inputs, labels = padded_batch([(item["tokens"], item["labels"]) for item in items])
    return {"labels": labels, **inputs}


ragged_dicts = pt.Recipe(
    model=Attention, data=(RaggedDicts(SAMPLES, 4), RaggedDicts(9, 5)), loss=nn.CrossEntropyLoss(), collate=padded_dicts
)


class _SinglePrecision(nn.Module):
    """Turns its input into float32, whatever its weights are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 2)

    def forward(self, values: Tensor) -> Tensor:
        return self.inner(values.float())  # type: ignore[no-any-return]


single = pt.Recipe(model=_SinglePrecision, data=_pair(_inputs(6), _inputs(6)[:, :2]), loss=nn.MSELoss())
