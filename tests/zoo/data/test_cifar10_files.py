"""CIFAR-10's files are read whole, and nothing in them is ever run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmette.errors import InputError
from palmette.zoo.data.cifar10_files import TRAIN_FILES, read_batch, read_cifar10
from tests.zoo.data.archives import content, write_archive

# As Python 2 and NumPy 1 wrote the published files: two images of one brightness each, labels 3 and 8.
PUBLISHED = (
    b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85"
    b"U\x01b\x87Rq\x05(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ"
    b"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x18\x00\x00"
    + b"\x07" * 3072
    + b"\x09" * 3072
    + b"tbU\x06labelsq\x08]q\x09(K\x03K\x08eu."
)


IMAGES = np.zeros((2, 3072), np.uint8)


class Evil:
    """Unpickles into a call."""

    def __init__(self, call: Any, *arguments: object) -> None:
        self.made = (call, arguments)

    def __reduce__(self) -> tuple[Any, tuple[object, ...]]:
        return self.made


def written(tmp_path: Path, value: object, protocol: int = 2) -> Path:
    path = tmp_path / "batch"
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol=protocol))
    return path


def fault_of(path: Path) -> str:
    with pytest.raises(InputError) as error:
        read_batch(path)
    assert "\n" not in str(error.value)
    return str(error.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_batch_is_read_whatever_wrote_it(tmp_path: Path, protocol: int) -> None:
    batch = read_batch(written(tmp_path, content(seed=1), protocol))
    assert np.array_equal(batch.pixels.reshape(-1, 3072), content(seed=1)[b"data"])
    assert batch.labels.tolist() == content(seed=1)[b"labels"]


def test_a_batch_as_published_is_read(tmp_path: Path) -> None:
    batch = read_batch(written(tmp_path, PUBLISHED))
    assert batch.pixels.shape == (2, 3, 32, 32)
    assert batch.pixels[:, 2, 31, 31].tolist() == [7, 9]
    assert batch.labels.tolist() == [3, 8]


def test_columns_first_is_read_as_what_it_means(tmp_path: Path) -> None:
    images = np.asfortranarray(content(seed=2)[b"data"])
    batch = read_batch(written(tmp_path, {b"data": images, b"labels": [0, 1, 2, 3]}))
    assert np.array_equal(batch.pixels.reshape(-1, 3072), images)


def test_the_folder_or_its_parent_may_be_named(tmp_path: Path) -> None:
    folder = write_archive(tmp_path)
    for named in (folder, tmp_path):
        train, test = read_cifar10(named)
        assert (len(train.labels), len(test.labels)) == (20, 4)
    assert train.labels[:4].tolist() == content(seed=0)[b"labels"]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (os.system, ("touch ran",)),
        (eval, ("open('ran', 'w')",)),
        (getattr, ("text", "format")),
        (np.load, ("ran",)),
        (Path, ("ran",)),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_calls_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any, arguments: tuple[object, ...], protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, {b"data": Evil(call, *arguments), b"labels": []}, protocol)
    assert "refused, CIFAR-10 needs nothing of the kind" in fault_of(path)
    assert not Path("ran").exists()


def test_no_name_reaches_python_through_the_allowed_modules(tmp_path: Path) -> None:
    for name in ("numpy\nload", "numpy\ndtype.__class__", "_codecs\ndecode", "numpy.core.multiarray\narray"):
        path = written(tmp_path, b"\x80\x02c" + name.encode() + b"\n.")
        assert fault_of(path).startswith(f"pickle: {name.replace(chr(10), '.')}: refused")


def test_a_file_cut_short_anywhere_is_a_fault(tmp_path: Path) -> None:
    whole = pickle.dumps(content(seed=3), protocol=4)
    for length in [*range(200), *range(200, len(whole), 997), len(whole) - 1]:
        assert "damaged, or not a batch of CIFAR-10" in fault_of(written(tmp_path, whole[:length]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], "content: list: expected a pickled dictionary"),
        ({}, "data: missing: expected an array of N × 3072 bytes"),
        ({b"data": b"xyz"}, "data: bytes: expected an array of N × 3072 bytes"),
        (
            {b"data": np.zeros((2, 5), np.uint8)},
            "data: an array of 2 × 5: expected an array of N × 3072 bytes",
        ),
        (
            {b"data": np.zeros((1, 3072), np.uint8)},
            "labels: missing: expected a list of 1 numbers from 0 to 9",
        ),
        (
            {b"data": IMAGES, b"labels": [1]},
            "labels: a list of 1: expected a list of 2 numbers from 0 to 9",
        ),
        (
            {b"data": IMAGES, b"labels": [1, 10]},
            "labels: a list of 2: expected a list of 2 numbers from 0 to 9",
        ),
        ({b"data": np.zeros((1, 3072))}, "ValueError: an array of f8: damaged, or not a batch of CIFAR-10"),
    ],
)
def test_other_content_is_a_fault(tmp_path: Path, value: object, expected: str) -> None:
    assert fault_of(written(tmp_path, value)) == expected


def test_an_archive_has_to_be_unpacked_first(tmp_path: Path) -> None:
    archive = tmp_path / "cifar-10-python.tar.gz"
    archive.write_bytes(b"")
    for named in (archive, tmp_path):
        with pytest.raises(InputError, match=r"unpack .*first"):
            read_cifar10(named)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such folder: expected cifar-10-batches-py or"):
        read_cifar10(tmp_path / "nowhere")
    folder = write_archive(tmp_path)
    (folder / TRAIN_FILES[2]).unlink()
    with pytest.raises(InputError, match="lacks data_batch_3: expected the content of cifar-10-batches-py"):
        read_cifar10(tmp_path)
