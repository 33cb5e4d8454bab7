"""``hf:DIR``: an Arrow data set on disk, as ``save_to_disk`` of Hugging Face's ``datasets`` writes it.

One column is the input (an image, or numbers of the network's shape), ``label`` or ``labels`` the target; others are
not used. Of parts, ``train`` is trained on and ``validation`` or ``test`` held out; without them, every tenth row.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from palmette.errors import listed
from palmette.zoo.data.arrow_columns import InputColumn, TargetColumn, find_columns, input_column, target_column
from palmette.zoo.data.base import DataSet, Decoder, Indices, Shape, data_error
from palmette.zoo.data.decoded import DecodedSplit
from palmette.zoo.data.files import file_error, require_folder
from palmette.zoo.data.sampling import hold_out, spread

TRAINING = "train"
HELD_OUT = ("validation", "valid", "val", "test")
# So many samples are measured and looked at when the data is loaded; the others when they are sent.
CHECKED_SAMPLES = 1000


@dataclass(frozen=True, eq=False)
class ArrowSplit(DecodedSplit):
    """Some rows of a data set, by their ``numbers``."""

    name: str
    inputs: InputColumn
    outcomes: TargetColumn
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def sample_bytes(self) -> float:
        """The mean size of a sample, of a thousand at most."""
        chosen = spread(len(self), CHECKED_SAMPLES)
        return sum(map(len, self.stored(chosen))) / len(chosen)

    @property
    def decoder(self) -> Decoder:
        """What turns stored samples into inputs."""
        return self.inputs.decoder

    def stored(self, indices: Indices) -> list[bytes]:
        """The compressed images or the numbers of samples.

        Raises:
            InputError: one is broken, missing or of another shape.
        """
        return [self.inputs.stored(self.numbers[index]) for index in torch.as_tensor(indices).tolist()]

    def labels(self, indices: Indices) -> Tensor:
        """The targets of samples.

        Raises:
            InputError: one is missing or of another shape.
        """
        return self.outcomes.targets([self.numbers[index] for index in torch.as_tensor(indices).tolist()])


def load(name: str, folder: str, shape: Shape) -> DataSet:
    """The data set in a folder, the current one by default.

    Raises:
        InputError: it cannot be read, has no such columns, or does not fit the network.
    """
    train_rows, held_out_rows = _read_parts(name, require_folder(folder or "."))
    train = _whole(name, train_rows, shape)
    if held_out_rows is None:
        train, held_out = (replace(train, numbers=numbers) for numbers in hold_out(name, len(train)))
    else:
        held_out = _whole(name, held_out_rows, shape)
    for split in (train, held_out):
        split.stored(spread(len(split), CHECKED_SAMPLES))
        split.labels([0])
    known = [split.outcomes.classes for split in (train, held_out) if split.outcomes.classes is not None]
    return DataSet(name, train, held_out, max(known, default=None))


def _whole(name: str, rows: Any, shape: Shape) -> ArrowSplit:
    if len(rows) == 0:
        raise data_error(name, "has no rows; expected samples")
    taken, target = find_columns(name, rows)
    inputs = input_column(name, rows, taken, shape)
    outcomes = target_column(name, rows, target)
    return ArrowSplit(name, inputs, outcomes, range(len(rows)))


def _read_parts(name: str, folder: Path) -> tuple[Any, Any | None]:
    """The rows to train on, and those to evaluate on, if they are apart."""
    found = _read(name, folder)
    if not isinstance(found, dict):
        return found, None
    if TRAINING not in found:
        raise file_error(folder, f"has {listed(list(found)) or 'no parts'}", f"expected a part named {TRAINING}")
    return found[TRAINING], next((found[part] for part in HELD_OUT if part in found), None)


def _read(name: str, folder: Path) -> Any:
    if importlib.util.find_spec("datasets") is None:
        raise data_error(name, "datasets is not installed; expected pip install 'palmette[hf]'")
    try:
        import datasets

        return datasets.load_from_disk(str(folder))
    except Exception as error:
        expected = f"{type(error).__name__}: {error}; expected what save_to_disk wrote"
        raise file_error(folder, "cannot be read", expected) from error
