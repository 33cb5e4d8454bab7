"""Codecs: how outputs and gradients travel, and how large their messages are. The sizes are written here alone.

``none``  numbers as they are
``int8``  a byte for each number, and a scale for each channel of a message

``compress.codec`` has the coder of each; what is sent and what is priced follow from the same row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Codec = Literal["none", "int8"]

FLOAT_BYTES = 4
"""Bytes of a number that is not coded: the sizes of a profile are those of 32-bit floats."""
LABEL_BYTES = 8
"""Bytes of a label that travels beside an output."""


@dataclass(frozen=True, kw_only=True)
class CodecKind:
    """What the rest needs to know about a codec."""

    lossy: bool = False
    """Whether other numbers may arrive than were sent."""
    coded_bytes: int | None = None
    """Bytes of a coded number; None where a number stays as it is."""
    has_scales: bool = False
    """Whether a message has one number more for each channel (the second dimension of a batch)."""
    counts_labels: bool = False
    """Whether the labels beside an output count in its price; a plain message costs the profile's bytes alone."""

    def message_bytes(self, numbers: float, channels: int, width: int = FLOAT_BYTES) -> float:
        """Bytes of a message of so many numbers of ``width`` bytes in so many channels, without labels."""
        body = numbers * width if self.coded_bytes is None else math.ceil(numbers) * self.coded_bytes
        return body + channels * width if self.has_scales else body

    @property
    def ratio(self) -> float:
        """The bytes that one more number adds to a message, as a part of what it takes itself."""
        return 1.0 if self.coded_bytes is None else self.coded_bytes / FLOAT_BYTES


CODEC_KINDS: dict[Codec, CodecKind] = {
    "none": CodecKind(),
    "int8": CodecKind(lossy=True, coded_bytes=1, has_scales=True, counts_labels=True),
}
assert set(CODEC_KINDS) == set(get_args(Codec))

PLAIN: Codec = "none"
"""Numbers as they are."""
SMALLEST: Codec = min(CODEC_KINDS, key=lambda name: CODEC_KINDS[name].ratio)
"""The codec with the smallest messages."""
