"""What is trained: a small VGG on images, and a small GPT on a text that the benchmark makes."""

from __future__ import annotations

import io
import math
import pickle
import random
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset

import palmette as pt
from benchmarks.talk_less.networks import CONTEXT, small_gpt, small_vgg
from palmette.zoo.data import load_data

TEXT = "gpt on a text"
IMAGE = (3, 32, 32)
HELD_OUT = 2000
ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "cifar-10-python-24k.tar.xz"
_NOUNS = ("river", "node", "tree", "phone", "garden", "cloud", "letter", "window", "stone", "engine")
_VERBS = ("finds", "carries", "follows", "answers", "leaves", "keeps", "divides", "remembers")
_ENDS = ("slowly", "at night", "without a word", "every day", "in the rain", "for nothing")


@dataclass(frozen=True)
class Task:
    """A training, and the data that all methods see."""

    name: str
    make: Callable[[], nn.Module]
    train: TensorDataset
    held_out: TensorDataset
    chosen_on: TensorDataset
    """Other samples that nothing is trained on, by which settings are chosen."""
    lr: float
    momentum: float
    stored_bytes: int | None = None
    """Of a sample as a person would copy it; None for the numbers that the network takes."""

    def recipe(self, iterations: int) -> pt.Recipe:
        """The task as Palmette takes it, for a run of so many iterations: a warm-up, then a cosine."""
        torch.manual_seed(0)
        return pt.Recipe(
            model=self.make(), data=(self.train, self.held_out), optimizer="sgd", lr=self.lr, momentum=self.momentum,
            schedule="cosine", warmup=warmup(iterations),
        )  # fmt: skip


def warmup(iterations: int) -> int:
    """Iterations in which the learning rate rises: a tenth."""
    return iterations // 10


def images(archive: Path, samples: int) -> Task:
    """CIFAR-10 from an archive in the official layout; the digits of scikit-learn where there is none."""
    found = _cifar10(archive, samples) if archive.exists() else _digits(samples)
    name = "vgg on CIFAR-10" if archive.exists() else "vgg on digits"
    return Task(name, small_vgg, *found, lr=0.02, momentum=0.9, stored_bytes=math.prod(IMAGE))


def noise(samples: int) -> Task:
    """Images of nothing, for what depends on their size alone."""
    pixels = torch.rand(samples, *IMAGE, generator=torch.Generator().manual_seed(0))
    made = TensorDataset(pixels, torch.arange(samples) % 10)
    return Task("vgg on noise", small_vgg, made, made, made, lr=0.02, momentum=0.9)


def _cifar10(archive: Path, samples: int) -> tuple[TensorDataset, TensorDataset, TensorDataset]:
    batches: dict[str, dict[bytes, np.ndarray]] = {}
    with tarfile.open(archive) as packed:
        for member in packed:
            name = Path(member.name).name
            read = packed.extractfile(member) if name.startswith(("data_batch", "test_batch")) else None
            if read is not None:
                batches[name] = pickle.load(io.BytesIO(read.read()), encoding="bytes")
    train = [batches[name] for name in sorted(batches) if name.startswith("data")]
    others = [batches["test_batch"]]
    return _pictures(train, 0, samples), _pictures(others, 0, HELD_OUT), _pictures(others, HELD_OUT, 2 * HELD_OUT)


def _pictures(batches: list[dict[bytes, np.ndarray]], begin: int, end: int) -> TensorDataset:
    pixels = np.concatenate([each[b"data"] for each in batches])[begin:end].reshape(-1, *IMAGE)
    labels = np.concatenate([np.asarray(each[b"labels"]) for each in batches])[begin:end]
    return TensorDataset(torch.from_numpy(pixels).float() / 127.5 - 1, torch.from_numpy(labels).long())


def _digits(samples: int) -> tuple[TensorDataset, TensorDataset, TensorDataset]:
    """As many as are asked for: there are fewer, so that they repeat."""
    found = load_data("digits", IMAGE)
    train, held_out = found.train, found.held_out
    repeated = np.arange(samples) % len(train)
    halves = np.array_split(np.arange(len(held_out)), 2)
    first, second = (TensorDataset(*held_out.batch(each)) for each in halves)
    return TensorDataset(*train.batch(repeated)), first, second


def text(samples: int) -> Task:
    """Sentences of a small grammar, letter by letter: the next one is to be said."""
    draw = random.Random(7)
    length = samples + 2 * (HELD_OUT + CONTEXT) + CONTEXT
    written = ""
    while len(written) < length:
        words = (draw.choice(_NOUNS), draw.choice(_VERBS), draw.choice(_NOUNS), draw.choice(_ENDS))
        written += "the {} {} the {} {}. ".format(*words)
    symbols = sorted(set(written))
    tokens = torch.tensor([symbols.index(each) for each in written[:length]])
    windows, following = tokens[:-1].unfold(0, CONTEXT, 1), tokens[CONTEXT:]
    begins = [0, samples + CONTEXT, samples + 2 * CONTEXT + HELD_OUT]
    parts = [slice(at, at + many) for at, many in zip(begins, (samples, HELD_OUT, HELD_OUT), strict=True)]
    found = (TensorDataset(windows[part].contiguous(), following[part]) for part in parts)

    return Task(TEXT, partial(small_gpt, len(symbols)), *found, lr=0.05, momentum=0.9)
