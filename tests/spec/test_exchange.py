"""Exchanges as files and commands say them."""

from __future__ import annotations

from typing import Any

import pytest

from palmette.errors import InputError
from palmette.spec.exchange import EXCHANGE_KINDS, Exchange, known_exchange
from palmette.spec.files import validated


def test_the_bytes_of_a_weight() -> None:
    shape = (64, 32, 3, 3)
    many = 64 * 32 * 9
    assert Exchange().bytes_of(shape) == 4 * many
    assert known_exchange("bf16").bytes_of(shape) == 2 * many
    assert known_exchange("int8").bytes_of(shape) == many + 4 * many // 256
    assert known_exchange("topk:0.01").bytes_of(shape) == 8 * 185
    assert known_exchange("lowrank:2").bytes_of(shape) == 4 * 2 * (64 + 288)
    assert known_exchange("lowrank:2").bytes_of((64,)) == 4 * 64  # a bias travels as it is


def test_every_codec_is_smaller_than_the_numbers_themselves() -> None:
    for codec, kind in EXCHANGE_KINDS.items():
        assert (Exchange(codec=codec).bytes_of((128, 128)) < 4 * 128 * 128) == kind.lossy


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"codec": "zip"}, "codec: zip: expected 'none', 'bf16', 'int8', 'topk' or 'lowrank'"),
        ({"codec": "int8", "ratio": 0.1}, "ratio: 0.1: int8 has none; expected it with topk"),
        ({"codec": "topk", "rank": 2}, "rank: 2: topk has none; expected it with lowrank"),
        ({"codec": "topk", "ratio": 0.0}, "ratio: 0.0: expected a number greater than 0"),
        ({"codec": "lowrank", "rank": 0}, "rank: 0: expected a number greater than or equal to 1"),
        ({"codek": "int8"}, "codek: int8: unknown field; did you mean codec?"),
    ],
)
def test_wrong_fields_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        validated(Exchange, fields)
    assert [str(fault) for fault in error.value.faults] == [message]


@pytest.mark.parametrize("text", ["zip", "topk:", "topk:0", "topk:many", "lowrank:1.5", "lowrank:-1", "int8:4"])
def test_wrong_texts_are_refused_in_one_line(text: str) -> None:
    if text == "topk:":
        assert known_exchange(text) == Exchange(codec="topk")
        return
    with pytest.raises(InputError) as error:
        known_exchange(text)
    assert len(error.value.faults) == 1


def test_an_exchange_reads_as_it_is_given() -> None:
    assert str(known_exchange("topk:0.02")) == "topk ratio 0.02"
    assert str(known_exchange("lowrank")) == "lowrank rank 2"
    assert Exchange(codec="topk", ratio=0.5).model_dump() == {"codec": "topk", "ratio": 0.5}
