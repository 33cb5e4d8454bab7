"""Samples whose batches are their stored bytes, decoded: what kinds of data in files share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from palmette.zoo.data.base import Decoder, Indices


class DecodedSplit(ABC):
    """A split of the data set ``name``; a kind of data says how samples are stored and what their labels are."""

    name: str
    stores_labels = False

    @abstractmethod
    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Tensor, Any]:
        inputs, labels = self.batch([index])
        return inputs[0], labels[0]

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs (N × the network's input shape) and labels (N rows)."""
        return self.decoder.decode(self.stored(indices)), self.labels(indices)

    @property
    @abstractmethod
    def sample_bytes(self) -> float:
        """The mean size of a stored sample."""

    @property
    @abstractmethod
    def decoder(self) -> Decoder:
        """What turns stored samples into inputs."""

    @abstractmethod
    def stored(self, indices: Indices) -> list[bytes]:
        """Samples as they are stored."""

    @abstractmethod
    def labels(self, indices: Indices) -> Tensor:
        """What the loss compares outputs with, one row per sample."""
