"""A file of token ids: blocks, next tokens, and the smallest numbers that hold them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palmette.zoo.data import load_data
from tests.zoo.data.in_files import answers_or_refuses, fault_of, require_equal_anywhere, splits_of

IDS = np.arange(1000) % 300


def write(folder: Path, dtype: str = "uint16", ids: object = IDS) -> str:
    np.asarray(ids).astype(dtype).tofile(folder / "text.bin")
    return f"tokens:{folder}/text.bin"


def test_targets_are_the_next_tokens(tmp_path: Path) -> None:
    train, held_out = splits_of(write(tmp_path), (16,))
    inputs, targets = train.batch([0, 2])
    assert inputs.tolist() == [IDS[:16].tolist(), IDS[32:48].tolist()]
    assert targets.tolist() == [IDS[1:17].tolist(), IDS[33:49].tolist()]
    assert (inputs.dtype, targets.dtype) == (torch.int64, torch.int64)
    assert (len(train), len(held_out)) == (56, 6)


def test_the_last_tenth_is_held_out(tmp_path: Path) -> None:
    train, held_out = splits_of(write(tmp_path), (16,))
    assert torch.equal(train.labels([55])[0, -1:], held_out.batch([0])[0][0, :1])
    assert held_out.labels([5])[0, -1] == IDS[62 * 16]


@pytest.mark.parametrize("block", [1, 7, 16])
def test_a_block_is_the_same_in_every_batch_and_place(tmp_path: Path, block: int) -> None:
    for split in splits_of(f"{write(tmp_path)}?block={block}", (block,)):
        require_equal_anywhere(split, (block,))


@pytest.mark.parametrize(
    ("dtype", "largest", "stored"),
    [("uint16", 255, 1), ("uint16", 256, 2), ("int64", 65535, 2), ("uint32", 65536, 4), ("uint8", 9, 1)],
)
def test_tokens_take_no_more_than_the_largest_needs(tmp_path: Path, dtype: str, largest: int, stored: int) -> None:
    name = write(tmp_path, dtype, np.arange(500) % (largest + 1) if largest < 500 else [largest] * 500)
    train, _ = splits_of(f"{name}?dtype={dtype}&block=8", (8,))
    assert train.sample_bytes == 8 * stored
    assert [len(each) for each in train.stored([0, 1])] == [8 * stored] * 2
    assert load_data(f"{name}?dtype={dtype}", (8,)).classes == largest + 1
    require_equal_anywhere(train, (8,))


@pytest.mark.parametrize("dtype", ["uint8", "<i4", ">u2", "int64"])
def test_an_array_of_numpy_says_its_own_type(tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "text.npy", (IDS % 200).astype(dtype))
    train, _ = splits_of(f"tokens:{tmp_path}/text.npy", (16,))
    assert train.batch([1])[0][0].tolist() == IDS[16:32].tolist()


def test_the_file_stays_on_the_disk(tmp_path: Path) -> None:
    train, _ = splits_of(write(tmp_path), (16,))
    assert isinstance(train.ids, np.memmap)  # type: ignore[attr-defined]


def test_stored_blocks_hold_their_targets(tmp_path: Path) -> None:
    train, _ = splits_of(write(tmp_path), (16,))
    assert train.stores_labels
    assert train.labels([0]).shape == (1, 16)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("?block=8", "block: the network takes 16 tokens; expected the same"),
        ("?block=0", "block: expected a whole number of 1 or more, as in block=128"),
        ("?block=x", "block: expected a whole number of 1 or more, as in block=128"),
        ("?blok=16", "blok: no such option; did you mean block?"),
        ("?dtype=unit16", "dtype: no such dtype; did you mean uint16?"),
        ("?dtype=float32", "dtype: no such dtype; "),
    ],
)
def test_a_wrong_option_says_why(tmp_path: Path, options: str, expected: str) -> None:
    assert expected in fault_of(write(tmp_path) + options, (16,))


def test_files_that_cannot_be_used_say_why(tmp_path: Path) -> None:
    name = write(tmp_path)
    assert "holds tokens; the network takes 3×8×8, not a block of them" in fault_of(name, (3, 8, 8))
    assert "text.bin: data: 1000 tokens: expected 1001, for 10 blocks of 100" in fault_of(name, (100,))
    negative = write(tmp_path, "int32", [-7, *IDS])
    assert "text.bin: data: -7: expected token ids from 0 to 2147483647" in fault_of(f"{negative}?dtype=int32", (16,))
    assert "text.bin: data: 4294967289: exp" in fault_of(f"{negative}?dtype=uint32", (2,))
    (tmp_path / "text.bin").write_bytes(bytes(1001))
    assert "text.bin: data: cannot be read: ValueError: " in fault_of(name, (16,))
    (tmp_path / "text.bin").write_bytes(b"")
    assert "text.bin: data: cannot be read: ValueError: " in fault_of(name, (16,))


@pytest.mark.parametrize("array", [np.zeros(500), np.zeros((50, 10), np.int64), np.array(["a"] * 500), np.array(3)])
def test_other_arrays_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "text.npy", array)
    assert "expected one row of integers" in fault_of(f"tokens:{tmp_path}/text.npy", (16,))


def test_an_array_with_objects_is_not_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "text.npy", np.array([object()] * 500), allow_pickle=True)
    assert "text.npy: data: cannot be read: ValueError: " in fault_of(f"tokens:{tmp_path}/text.npy", (16,))


def test_an_array_says_its_dtype_itself(tmp_path: Path) -> None:
    np.save(tmp_path / "text.npy", IDS)
    expected = "dtype: a .npy file says its own; expected none"
    assert expected in fault_of(f"tokens:{tmp_path}/text.npy?dtype=uint16", (16,))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=300),
    at=st.integers(0, 400),
    cut=st.integers(0, 400),
    ending=st.sampled_from([".npy", ".bin", ".bin?dtype=int64"]),
)
def test_any_file_is_answered_or_refused(tmp_path: Path, data: bytes, at: int, cut: int, ending: str) -> None:
    file = tmp_path / f"text{ending.partition('?')[0]}"
    if ending == ".npy":
        np.save(file, IDS[:60].astype(np.uint8))
        whole = bytearray(file.read_bytes())
        whole[at : at + 3] = data[:3]
        data = bytes(whole[: len(whole) - cut // 8])
    file.write_bytes(data)
    answers_or_refuses(f"tokens:{tmp_path}/text{ending}", (2,))
