"""``tokens:FILE[?block=128&dtype=uint16]``: one long text as token ids, cut into blocks.

    file     t0 t1 t2 t3 t4 t5 t6 t7 t8 …
    sample 0 t0 t1 t2 t3       its target  t1 t2 t3 t4
    sample 1             t4 t5 t6 t7       t5 t6 t7 t8

A block is as long as what the network takes. The last tenth of the blocks is held out. The file is either raw numbers,
as nanoGPT writes them (little-endian, 16 bits unless ``dtype`` says otherwise), or ``.npy``; it is mapped into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palmette.errors import expected_name
from palmette.zoo.data.base import DataSet, Indices, Shape, data_error, format_shape
from palmette.zoo.data.custom_tensors import TensorDecoder, stored_dtype
from palmette.zoo.data.decoded import DecodedSplit
from palmette.zoo.data.files import file_error, split_options
from palmette.zoo.data.raw_bytes import to_bytes
from palmette.zoo.data.sampling import HOLD_OUT_ONE_IN

OPTIONS = ("block", "dtype")
DTYPES = {"uint8": "<u1", "uint16": "<u2", "uint32": "<u4", "int16": "<i2", "int32": "<i4", "int64": "<i8"}
RAW_DTYPE = "uint16"
MOST_TOKENS = 2**31
SCANNED = 2**22  # ids at a time, to find the largest
Ids = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class TokenSplit(DecodedSplit):
    """So many ``samples`` blocks of a text, from block ``first`` on; the vocabulary is its largest id and one."""

    name: str
    ids: Ids
    block: int
    first: int
    samples: int
    vocabulary: int

    stores_labels = True  # all but the last of a block's targets stand in the block

    def __len__(self) -> int:
        return self.samples

    @property
    def sample_bytes(self) -> float:
        """The size of a block, the same for all."""
        return float(self.block * self.decoder.stored_dtype.itemsize)

    @property
    def decoder(self) -> TensorDecoder:
        """What turns the bytes of blocks into int64."""
        return TensorDecoder((self.block,), torch.int64, stored_dtype(torch.int64, self.vocabulary))

    def stored(self, indices: Indices) -> list[bytes]:
        """Blocks in the smallest integers that hold the vocabulary."""
        dtype = self.decoder.stored_dtype
        return [to_bytes(block.to(dtype)) for block in self._blocks(indices, shift=0)]

    def labels(self, indices: Indices) -> Tensor:
        """The token that follows each one of a block: N × block, int64."""
        return self._blocks(indices, shift=1)

    def _blocks(self, indices: Indices, shift: int) -> Tensor:
        at = torch.as_tensor(indices, dtype=torch.long).numpy()
        at = np.where(at < 0, at + self.samples, at)
        places = ((self.first + at) * self.block + shift)[:, None] + np.arange(self.block)
        return torch.from_numpy(self.ids[places].astype(np.int64))


def load(name: str, argument: str, shape: Shape) -> DataSet:
    """The text in a file.

    Raises:
        InputError: the file, its options or the network's shape are not usable.
    """
    path, options = split_options(name, argument, OPTIONS)
    block = _block(name, options.get("block"), shape)
    ids = _read_ids(name, path, options.get("dtype"))
    samples = (len(ids) - 1) // block
    if samples < HOLD_OUT_ONE_IN:
        needed = f"expected {HOLD_OUT_ONE_IN * block + 1}, for {HOLD_OUT_ONE_IN} blocks of {block}"
        raise file_error(path, f"{len(ids)} tokens", needed)
    vocabulary = _largest(path, ids) + 1
    held_out = samples // HOLD_OUT_ONE_IN
    train = TokenSplit(name, ids, block, 0, samples - held_out, vocabulary)
    return DataSet(
        name, train, TokenSplit(name, ids, block, samples - held_out, held_out, vocabulary), classes=vocabulary
    )


def _block(name: str, requested: str | None, shape: Shape) -> int:
    """The length of a block: what the network takes."""
    if len(shape) != 1:
        raise data_error(name, f"holds tokens; the network takes {format_shape(shape)}, not a block of them")
    if requested is None:
        return shape[0]
    if not (requested.isascii() and requested.isdigit() and requested.strip("0")):
        raise data_error(name, "block: expected a whole number of 1 or more, as in block=128")
    if requested.lstrip("0") != str(shape[0]):
        raise data_error(name, f"block: the network takes {shape[0]} tokens; expected the same")
    return shape[0]


def _read_ids(name: str, path: Path, dtype: str | None) -> Ids:
    """The ids in a file, mapped into memory."""
    if dtype is not None and dtype not in DTYPES:
        raise data_error(name, f"dtype: {expected_name(dtype, 'dtype', list(DTYPES))}")
    if path.suffix != ".npy":
        return _mapped(path, lambda: np.memmap(path, np.dtype(DTYPES[dtype or RAW_DTYPE]), "r"))
    if dtype is not None:
        raise data_error(name, "dtype: a .npy file says its own; expected none")
    ids = _mapped(path, lambda: np.lib.format.open_memmap(path, mode="r"))
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise file_error(path, f"{format_shape(ids.shape)} of {ids.dtype}", "expected one row of integers")
    return ids


def _mapped(path: Path, read: Callable[[], Any]) -> Ids:
    try:
        found: Ids = read()
    except Exception as error:
        raise file_error(path, "cannot be read", f"{type(error).__name__}: {error}; expected token ids") from error
    return found


def _largest(path: Path, ids: Ids) -> int:
    """The largest id.

    Raises:
        InputError: one is negative or too large.
    """
    parts = [ids[start : start + SCANNED] for start in range(0, len(ids), SCANNED)]
    least, most = min(int(part.min()) for part in parts), max(int(part.max()) for part in parts)
    wrong = least if least < 0 else most
    if not 0 <= wrong < MOST_TOKENS:
        raise file_error(path, wrong, f"expected token ids from 0 to {MOST_TOKENS - 1}")
    return most
