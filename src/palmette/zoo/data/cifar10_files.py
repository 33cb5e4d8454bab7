"""CIFAR-10 as its authors publish it: pickled dictionaries, read without executing what a pickle names.

Unpickling calls whatever the file names, so a stranger's file could run any code. The files need no more
than dictionaries, lists, bytes, numbers and one array of bytes each; the few NumPy names that rebuild the
array are answered by stand-ins of this module, and every other name is refused.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from palmette.errors import Fault, InputError

FOLDER = "cifar-10-batches-py"
TRAIN_FILES = [f"data_batch_{k}" for k in range(1, 6)]
TEST_FILE = "test_batch"
CLASSES = 10
SHAPE = (3, 32, 32)


@dataclass(frozen=True, eq=False)
class CifarBatch:
    """Images (N×3×32×32 bytes) and their labels (N integers from 0 to 9)."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]


def read_cifar10(folder: Path) -> tuple[CifarBatch, CifarBatch]:
    """The training and the test images found in ``folder`` or in its ``cifar-10-batches-py``.

    Raises:
        InputError: the folder, one of its files or their content is not as published.
    """
    home = _home(folder)
    train = [read_batch(home / name) for name in TRAIN_FILES]
    whole = CifarBatch(
        np.concatenate([batch.pixels for batch in train]), np.concatenate([batch.labels for batch in train])
    )
    return whole, read_batch(home / TEST_FILE)


def read_batch(path: Path) -> CifarBatch:
    """One file of the archive.

    Raises:
        InputError: it cannot be read, is damaged, or asks for more than data.
    """
    content = _load(path)
    if not isinstance(content, dict):
        raise _fault(path, "content", type(content).__name__, "expected a pickled dictionary")
    pixels, labels = (content.get(key, content.get(key.decode())) for key in (b"data", b"labels"))
    if not isinstance(pixels, _Array) or pixels.array is None or pixels.array.shape[1:] != (np.prod(SHAPE),):
        raise _fault(path, "data", _kind(pixels), "expected an array of N × 3072 bytes")
    images = pixels.array.reshape(-1, *SHAPE)
    if not isinstance(labels, list) or len(labels) != len(images) or not all(map(_is_label, labels)):
        raise _fault(path, "labels", _kind(labels), f"expected a list of {len(images)} numbers from 0 to 9")
    return CifarBatch(images, np.array(labels, dtype=np.int64))


def _home(folder: Path) -> Path:
    """The folder that holds the files themselves."""
    if folder.is_file():
        raise _fault(folder, "", "a file", f"unpack it first (tar -xf {folder.name}) and name the folder")
    if not folder.is_dir():
        raise _fault(folder, "", "no such folder", f"expected {FOLDER} or the folder it is in")
    home = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    missing = [name for name in [*TRAIN_FILES, TEST_FILE] if not (home / name).is_file()]
    if missing:
        archive = next(home.glob("cifar-10*.tar*"), None)
        expected = f"unpack {archive.name} first" if archive else f"expected the content of {FOLDER}"
        raise _fault(home, "", f"lacks {', '.join(missing)}", expected)
    return home


def _load(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return _Unpickler(file, encoding="bytes").load()
    except OSError as error:
        raise _fault(path, "", error.strerror or type(error).__name__, "expected a readable file") from None
    except _Refused as refused:
        expected = "refused, CIFAR-10 needs nothing of the kind; get the file from its authors"
        raise _fault(path, "pickle", str(refused), expected) from None
    except Exception as error:  # noqa: BLE001  a damaged pickle may raise anything
        what = f"{type(error).__name__}: {error}"
        raise _fault(path, "", what, "damaged, or not a batch of CIFAR-10") from None


class _Refused(Exception):
    """A pickle names something that is not data."""


class _Unpickler(pickle.Unpickler):
    """Builds plain values only; never imports anything."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        super().__init__(file, encoding=encoding)

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a NumPy name; refuses all else."""
        stand_in = _STAND_INS.get((module.replace("numpy._core", "numpy.core"), name))
        if stand_in is None:
            raise _Refused(f"{module}.{name}")
        return stand_in


class _Type:
    """Stands in for ``numpy.dtype``; the bytes of CIFAR-10 have no byte order to restore."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = code.decode() if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """Stands in for ``numpy.ndarray``: rebuilt from its bytes, without NumPy's own unpickling."""

    def __init__(self, *_: object) -> None:
        self.array: NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[object, tuple[int, ...], _Type, bool, bytes]) -> None:
        _, shape, kind, column_major, data = state
        self.fill(data, kind, shape, "F" if column_major else "C")

    def fill(self, data: bytes, kind: _Type, shape: tuple[int, ...], order: str | bytes) -> None:
        """Take the bytes; raises where they are of another type or do not fill the shape."""
        if kind.code.lstrip("|") != "u1":
            raise ValueError(f"an array of {kind.code}")
        column_major = order in {"F", b"F"}
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if column_major else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _from_buffer(data: bytes, kind: _Type, shape: tuple[int, ...], order: str | bytes) -> _Array:
    array = _Array()
    array.fill(data, kind, shape, order)
    return array


def _encode(text: str, _: str) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
}


def _is_label(value: object) -> bool:
    return type(value) is int and 0 <= value < CLASSES


def _kind(value: object) -> str:
    if isinstance(value, _Array) and value.array is not None:
        return f"an array of {' × '.join(map(str, value.array.shape))}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "missing" if value is None else type(value).__name__


def _fault(path: Path, field: str, value: object, expected: str) -> InputError:
    return InputError(Fault(field, value, expected, file=str(path)))
