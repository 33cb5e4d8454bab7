"""The length that goes before a message whose size the receiver does not know."""

from __future__ import annotations

import struct

import pytest
import torch

from palmette.runtime.transports.lengths import LENGTH_BYTES, MOST_BYTES, BadLength, length_of, read_length


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_the_length_of_a_message_is_read_as_it_was_written(size: int) -> None:
    length = length_of(torch.zeros(size, dtype=torch.uint8))
    assert length.numel() == LENGTH_BYTES
    assert read_length(length, "phone") == size


@pytest.mark.parametrize("size", [-1, MOST_BYTES + 1, 2**63 - 1, -(2**63)])
def test_a_length_that_no_message_has_is_refused(size: int) -> None:
    length = torch.frombuffer(bytearray(struct.pack("<q", size)), dtype=torch.uint8)
    expected = f"^node phone announces a message of {size} bytes; expected 0 to {MOST_BYTES}$"
    with pytest.raises(BadLength, match=expected):
        read_length(length, "phone")
