"""Frames: whatever the bytes, either a frame that fits its own words or a refusal."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palmette.runtime.transports.tls.frames import (
    LONGEST_PART,
    MOST_BYTES,
    NO_CHANNEL,
    TOKEN_BYTES,
    BadFrame,
    FrameKind,
    credit,
    data_frames,
    decoded,
    grant,
    hello,
    read_hello,
    welcome,
)

TOKEN = bytes(range(TOKEN_BYTES))
HEADER = struct.Struct("<4sBIQQ")
SIZES = [0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 512 * 1024, 9_000_001]


@pytest.mark.parametrize("relayed", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_parts_of_a_message_are_all_of_it(size: int, relayed: bool) -> None:
    message = bytes(k * 7 % 251 for k in range(1000)) * (size // 1000 + 1)
    message = message[:size]
    frames = list(data_frames(5, memoryview(message), relayed=relayed))
    found = [decoded(frame) for frame in frames]
    assert all(len(frame) <= MOST_BYTES for frame in frames)
    assert {(f.kind, f.channel, f.size) for f in found} == {(FrameKind.DATA, 5, size)}
    assert b"".join(f.payload for f in found) == message
    assert [f.offset for f in found] == [sum(len(g.payload) for g in found[:k]) for k in range(len(found))]


def test_parts_are_as_short_as_asked_for() -> None:
    parts = [decoded(frame).payload for frame in data_frames(5, memoryview(bytes(9_000_001)), longest=70_000)]
    assert max(map(len, parts)) == 70_000
    assert sum(map(len, parts)) == 9_000_001


def test_a_hello_says_who() -> None:
    frame = decoded(hello(TOKEN, "öffentlich 1", 7))
    assert read_hello(frame) == (TOKEN, "öffentlich 1")
    assert frame.channel == 7
    assert decoded(hello(TOKEN, "a")).channel == NO_CHANNEL


@given(st.binary(max_size=80))
@example(welcome())
@example(grant(1, 2**64 - 1))
@example(HEADER.pack(b"plm1", 4, 0, 2**64 - 1, 2**64 - 1) + b"x")
@example(HEADER.pack(b"plm1", 4, 0, 5, 2**64 - 1) + b"x")
@example(HEADER.pack(b"plm1", 1, 0, 0, 0))
def test_any_bytes_are_a_frame_that_fits_or_refused(data: bytes) -> None:
    try:
        frame = decoded(data)
    except BadFrame:
        return
    assert frame.offset + len(frame.payload) <= max(frame.size, len(frame.payload))
    assert frame.kind in (FrameKind.DATA, FrameKind.HELLO) or not frame.payload


@given(st.data())
def test_a_frame_with_a_flipped_bit_is_never_larger_than_it_is(data: st.DataObject) -> None:
    good = bytearray(
        data.draw(
            st.sampled_from(
                [hello(TOKEN, "phone", 3), grant(3, 10), credit(3, 10), *data_frames(3, memoryview(b"abcd"))]
            )
        )
    )
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    good[bit // 8] ^= 1 << bit % 8
    try:
        frame = decoded(bytes(good))
    except BadFrame:
        return
    assert len(frame.payload) == len(good) - HEADER.size


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"", "shorter than its header"),
        (b"GET / HTTP/1.1\r\nHost: palmette\r\n\r\n", "begins with b'GET '"),
        (HEADER.pack(b"plm1", 9, 0, 0, 0), "unknown kind of frame: 9"),
        (HEADER.pack(b"plm1", 3, 0, 5, 0) + b"abc", "carries 3 bytes; expected none"),
        (HEADER.pack(b"plm1", 7, 0, 5, 0) + b"abc", "carries 3 bytes; expected none"),
        (HEADER.pack(b"plm1", 4, 0, 2, 0) + b"abc", "are not a part of a message of 2"),
        (HEADER.pack(b"plm1", 4, 0, 2**40, 0) + bytes(LONGEST_PART + 1), "are not a part of a message"),
        (HEADER.pack(b"plm1", 4, 0, 5, 0), "are not a part of a message of 5"),
        (HEADER.pack(b"plm1", 1, 0, 0, 0) + TOKEN, "expected a token and the name of a node"),
        (HEADER.pack(b"plm1", 1, 0, 0, 0) + TOKEN + b"x" * 801, "expected a token and the name of a node"),
    ],
)
def test_a_refusal_says_why(frame: bytes, says: str) -> None:
    with pytest.raises(BadFrame, match=says):
        decoded(frame)


def test_a_name_that_is_no_text_is_refused() -> None:
    frame = decoded(HEADER.pack(b"plm1", 1, 0, 0, 0) + TOKEN + b"\xff\xfe")
    with pytest.raises(BadFrame, match="UTF-8"):
        read_hello(frame)
    with pytest.raises(BadFrame, match="expected hello"):
        read_hello(decoded(welcome()))
