"""A batch is what its stored samples are decoded to, wherever that happens."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from palmette.errors import InputError
from palmette.zoo.data import DataSplit, concatenate, load_data
from palmette.zoo.data.concat import PART_BYTES
from tests.zoo.data.archives import write_archive
from tests.zoo.data.own_modules import write_module

OWN = """
import zlib
import torch

def picture(k, dtype=torch.uint8):
    return (torch.arange(6).reshape(2, 3) * (k + 1)).remainder(256).to(dtype)

def packed(k):
    return zlib.compress(bytes(picture(k).flatten().tolist()) * (1 + k % 7))

def unpacked(data):
    return torch.tensor(list(zlib.decompress(data)[:6]), dtype=torch.uint8).reshape(2, 3) / 255

class Files:
    def __init__(self, many=40):
        self.bulk = bytes(3_000_000)
        self.many = many
    def __len__(self): return self.many
    def stored(self, k): return packed(k)

class Static(Files):
    @staticmethod
    def decode(data): return unpacked(data)
    def label(self, k): return k % 5

class OfClass(Files):
    scale = 2
    @classmethod
    def decode(cls, data): return unpacked(data) * cls.scale
    def __getitem__(self, k): return "a picture", k % 3

class Method(Files):
    scale = 1
    def __init__(self):
        super().__init__()
        self.scale = 3
    def decode(self, data): return unpacked(data) * self.scale
    def label(self, k): return k % 5

class Attribute(Files):
    def __init__(self):
        super().__init__()
        self.decode = unpacked
    def label(self, k): return k % 5

class Labelled(Files):
    def stored(self, k): return bytes([k % 4]) + packed(k)
    @staticmethod
    def decode(data): return unpacked(data[1:]), data[0]

class Seeded(Static):
    @staticmethod
    def decode(data, seed):
        inputs = unpacked(data)
        return inputs if seed is None else inputs + seed

class Said(Static):
    sample_bytes = 70.5

class SaidNonsense(Static):
    sample_bytes = -1

class Views(Static):
    def stored(self, k): return memoryview(packed(k))

def parted(train):
    made = Method()
    made.scale = 10 if train else 20
    return made

class Strings(Static):
    def stored(self, k): return "text"

class Empty(Static):
    def stored(self, k): return b""

class Gone(Static):
    def stored(self, k): raise OSError("the disk is gone")

class Damaged(Static):
    def stored(self, k): return b"x"

class Words(Static):
    @staticmethod
    def decode(data): return "words"

class Pairs(Static):
    @staticmethod
    def decode(data): return "words", 1

class Flat(Static):
    @staticmethod
    def decode(data): return unpacked(data).flatten()

class Names(Static):
    def label(self, k): return 'cat'

class NoLabel(Files):
    @staticmethod
    def decode(data): return unpacked(data)

class OnlyStored(Files):
    def __getitem__(self, k): return picture(k), k

class Changing(Static):
    @staticmethod
    def decode(data): return unpacked(data).to(torch.float64 if len(data) > 15 else torch.float32)

class Plain(list):
    pass

def of(dtype):
    return lambda: Plain((picture(k, dtype), k % 5) for k in range(40))

BOOL, UINT8, INT16, INT64 = map(of, [torch.bool, torch.uint8, torch.int16, torch.int64])
HALF, BFLOAT, FLOAT, DOUBLE, COMPLEX = map(
    of, [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
)

def strided():
    return [(torch.arange(6.0).reshape(3, 2).T.requires_grad_(), 0)] * 20

def mixed():
    return [(picture(k, torch.float64 if k > 20 else torch.float32), 0) for k in range(40)]

def text(vocabulary, dtype=torch.int64, highest=None):
    highest = vocabulary - 1 if highest is None else highest
    made = Plain((torch.tensor([[0, 1, 2], [3, highest, k]]).to(dtype), k) for k in range(40))
    made.vocabulary = vocabulary
    return made

def bytes_(): return text(256)
def words(): return text(50_000)
def short_words(): return text(50_000, torch.int32)
def many_words(): return text(70_000)
def few_small_words(): return text(100, torch.uint8)
def wide_words(): return text(2**40)
def unknown_words(): return text(50_000, highest=50_000)
def negative_words(): return text(50_000, highest=-1)
def no_words(): return text(0, highest=1)
"""

SHAPE = (2, 3)
DTYPES = {
    "BOOL": 1,
    "UINT8": 1,
    "INT16": 2,
    "INT64": 8,
    "HALF": 2,
    "BFLOAT": 2,
    "FLOAT": 4,
    "DOUBLE": 8,
    "COMPLEX": 8,
}
TOKENS = {
    "bytes_": 1,
    "words": 2,
    "short_words": 2,
    "many_words": 4,
    "few_small_words": 1,
    "wide_words": 8,
}
STORED = ["Static", "OfClass", "Method", "Attribute", "Labelled", "Seeded", "Said", "Views", "parted"]

ELSEWHERE = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    given = pickle.load(file)
sys.stdout.buffer.write(pickle.dumps([decoder.decode(stored) for decoder, stored in given]))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with data sets of the user's own."""
    return write_module(tmp_path, monkeypatch, "own_stored", OWN)


def equal_to_its_stored_samples(split: DataSplit, indices: list[int]) -> None:
    inputs, labels = split.batch(indices)
    stored = split.stored(indices)
    decoded = split.decoder.decode(stored)
    assert all(type(each) is bytes for each in stored)
    assert decoded.dtype == inputs.dtype
    assert torch.equal(decoded, inputs)
    assert split.labels(indices).dtype == torch.int64
    assert torch.equal(split.labels(indices), labels)
    for k, index in enumerate(indices):
        assert torch.equal(split.decoder.decode(stored[k : k + 1])[0], inputs[k])
        assert torch.equal(split[index][0], inputs[k])


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 5, 7), (1, 28, 28)])
def test_images_are_their_bytes(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    write_archive(tmp_path)
    for name, size_bytes in [("digits", 64), (f"cifar10:{tmp_path}", 3072)]:
        data = load_data(name, shape)
        for split in (data.train, data.held_out):
            equal_to_its_stored_samples(split, [3, 0, 2])
            assert split.sample_bytes == size_bytes
            assert {len(each) for each in split.stored(range(4))} == {size_bytes}
            assert not split.stores_labels


@pytest.mark.parametrize("kind", DTYPES)
def test_tensors_are_their_own_numbers(own: str, kind: str) -> None:
    data = load_data(f"{own}:{kind}", SHAPE)
    for split in (data.train, data.held_out):
        equal_to_its_stored_samples(split, [2, 0, 3])
        assert split.sample_bytes == 6 * DTYPES[kind]
        assert [len(each) for each in split.stored([1])] == [split.sample_bytes]
        assert not split.stores_labels


def test_a_tensor_need_not_be_contiguous(own: str) -> None:
    equal_to_its_stored_samples(load_data(f"{own}:strided", SHAPE).train, [0, 1])


@pytest.mark.parametrize("kind", TOKENS)
def test_tokens_take_no_more_than_their_vocabulary_needs(own: str, kind: str) -> None:
    split = load_data(f"{own}:{kind}", SHAPE).train
    equal_to_its_stored_samples(split, [2, 0, 3])
    assert split.sample_bytes == 6 * TOKENS[kind]
    assert len(split.stored([0])[0]) == split.sample_bytes


@pytest.mark.parametrize("kind", STORED)
def test_ones_own_stored_samples_are_decoded(own: str, kind: str) -> None:
    data = load_data(f"{own}:{kind}", SHAPE)
    equal_to_its_stored_samples(data.train, [5, 0, 7, 8])
    equal_to_its_stored_samples(data.held_out, [1, 0])
    assert data.train.stores_labels == (kind == "Labelled")


def test_labels_come_from_where_they_are(own: str) -> None:
    for kind, classes in [("Static", 5), ("OfClass", 3), ("Labelled", 4)]:
        split = load_data(f"{own}:{kind}", SHAPE).train
        again = load_data(f"{own}:{kind}", SHAPE).train
        assert split.labels(range(10)).tolist() == [again.numbers[k] % classes for k in range(10)]  # type: ignore[attr-defined]
        assert torch.equal(again.batch(range(10))[1], split.labels(range(10)))


def test_a_seed_goes_to_a_decode_that_takes_one(own: str) -> None:
    seeded, plain = (load_data(f"{own}:{kind}", SHAPE).train for kind in ("Seeded", "Static"))
    stored = seeded.stored([3, 1])
    inputs = seeded.batch([3, 1])[0]
    drawn = seeded.decoder.decode(stored, [10, 20])
    assert torch.equal(drawn[0], inputs[0] + 10)
    assert torch.equal(drawn[1], inputs[1] + 20)
    assert torch.equal(seeded.decoder.decode(stored[1:], [20])[0], drawn[1])
    assert torch.equal(plain.decoder.decode(stored, [10, 20]), inputs)


def test_the_size_of_stored_samples_is_their_mean(own: str) -> None:
    split = load_data(f"{own}:Static", SHAPE).train
    sizes = [len(each) for each in split.stored(range(len(split)))]
    assert len(set(sizes)) > 1
    assert split.sample_bytes == sum(sizes) / len(sizes)


def test_of_many_samples_some_are_measured(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from palmette.zoo.data import custom_stored

    monkeypatch.setattr(custom_stored, "MEASURED_SAMPLES", 3)
    split = load_data(f"{own}:Static", SHAPE).train
    expected = [len(split.stored([k])[0]) for k in (0, 18, 35)]
    assert len(split) == 36
    assert split.sample_bytes == pytest.approx(sum(expected) / 3)


def test_a_data_set_may_say_how_large_its_samples_are(own: str) -> None:
    assert load_data(f"{own}:Said", SHAPE).train.sample_bytes == 70.5
    assert load_data(f"{own}:SaidNonsense", SHAPE).train.sample_bytes > 0


@pytest.mark.slow
def test_decoders_work_in_another_process_without_the_samples(own: str, tmp_path: Path) -> None:
    splits = [load_data(f"{own}:{kind}", SHAPE).held_out for kind in (*STORED, "BFLOAT", "words")]
    assert all(len(pickle.dumps(split.decoder)) < 20_000 for split in splits)

    file = tmp_path / "decoders.pickle"
    file.write_bytes(pickle.dumps([(split.decoder, split.stored([1, 0])) for split in splits]))
    command = [sys.executable, "-c", ELSEWHERE, str(file)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, cwd=tmp_path)

    assert done.returncode == 0, done.stderr.decode()
    for split, found in zip(splits, pickle.loads(done.stdout), strict=True):
        assert torch.equal(found, split.batch([1, 0])[0])


def test_a_decode_that_a_node_does_not_have_is_told(own: str) -> None:
    decoder = pickle.loads(pickle.dumps(load_data(f"{own}:Static", SHAPE).train.decoder))
    decoder.path = f"{own}:Older.decode"
    with pytest.raises(InputError, match=r"its decode is not at own_stored:Older\.decode; expected the same modules"):
        decoder.decode([b"x"])


def test_a_decoder_of_images_is_small() -> None:
    assert len(pickle.dumps(load_data("digits", (3, 32, 32)).train.decoder)) < 2_000


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Strings", "[0]: stored returned a str; expected bytes"),
        ("Empty", "[0]: stored returned no bytes; expected at least one"),
        ("Gone", "[0]: stored failed: OSError: the disk is gone"),
        ("Damaged", "[0]: decode failed: error: Error -5 while decompressing data: incomplete or truncated stream"),
        ("Words", "[0]: decode returned a str; expected a tensor or (tensor, label)"),
        ("Pairs", "[0]: decode returned a tuple; expected a tensor or (tensor, label)"),
        ("Flat", "[0]: is a tensor of 6; the network takes 2×3"),
        ("Names", "[0]: its target holds a str; expected numbers or tensors"),
        ("NoLabel", "[0]: has no label; expected a method label, or a decode that returns (tensor, label)"),
        ("OnlyStored", ": has stored but no decode; expected both or neither"),
        ("unknown_words", "[0]: has the token 50000; expected 0 to 49999, by its vocabulary"),
        ("negative_words", "[0]: has the token -1; expected 0 to 49999, by its vocabulary"),
        ("no_words", ": has a vocabulary of 0; expected 1 or more"),
    ],
)
def test_what_cannot_be_stored_or_decoded_says_why(own: str, kind: str, expected: str) -> None:
    with pytest.raises(InputError) as error:
        load_data(f"{own}:{kind}", SHAPE)
    assert re.sub(r" \(\S+\.py:\d+\)$", "", str(error.value)) == f"data: {own}:{kind}{expected}"


@pytest.mark.parametrize("kind", ["mixed", "Changing"])
def test_samples_of_several_dtypes_are_refused(own: str, kind: str) -> None:
    split = load_data(f"{own}:{kind}", SHAPE).train
    for fetch in (split.batch, split.stored) if kind == "mixed" else (split.batch,):
        with pytest.raises(InputError, match=r"\[\d+\]: is a tensor of .*, the first sample of .*; expected one dtype"):
            fetch(range(len(split)))


def test_stored_bytes_of_another_size_are_refused() -> None:
    decoder = load_data("digits", (1, 8, 8)).train.decoder
    with pytest.raises(InputError, match="a stored sample: has 63 bytes; expected 64"):
        decoder.decode([bytes(64), bytes(63)])


def test_no_samples_are_an_empty_batch(own: str) -> None:
    for name, shape in [("digits", (3, 32, 32)), (f"{own}:Static", SHAPE), (f"{own}:INT16", SHAPE)]:
        data = load_data(name, shape)
        for split in (data.train, concatenate([data, data]).train):
            equal_to_its_stored_samples(split, [])
            assert split.batch([])[0].shape == (0, *shape)


def test_several_sets_as_one_decode_each_sample_its_own_way(own: str) -> None:
    sets = [load_data(f"{own}:{kind}", SHAPE) for kind in ("Static", "FLOAT", "Labelled")]
    both = concatenate(sets).train
    equal_to_its_stored_samples(both, [100, 3, 71, 40, 0])
    mean_bytes = sum(each.train.sample_bytes for each in sets) / 3
    assert both.sample_bytes == pytest.approx(mean_bytes + PART_BYTES)
    assert both.stores_labels
    assert not concatenate(sets[:2]).train.stores_labels
    seeded = concatenate([load_data(f"{own}:Seeded", SHAPE), sets[0]]).train
    shifted = seeded.decoder.decode(seeded.stored([40, 2]), [5, 7])
    assert torch.equal(shifted, seeded.batch([40, 2])[0] + torch.tensor([0, 7]).reshape(2, 1, 1))
    with pytest.raises(InputError, match="a stored sample: is of part 9; expected one below 2"):
        seeded.decoder.decode([bytes([9, 0, 0, 0, 1])])


def test_a_plain_sample_is_fetched_once_for_its_bytes_and_its_label(own: str) -> None:
    split = load_data(f"{own}:FLOAT", SHAPE).train
    split.stored(range(5))
    split.source.clear()  # type: ignore[attr-defined]
    assert len(split.labels(range(5))) == 5
