"""Codecs: how outputs and gradients travel, and how large their messages are. The sizes are written here alone.

``none``  numbers as they are
``int8``  a byte for each number, and a scale for each channel of a message
``int4``  half a byte for each number of an output, and a scale for each block of 64; its gradient returns as ``int8``
``int4-delta``  as ``int4``, of the difference to what both ends keep of the sample's output; the first time as ``int8``

``compress.codec`` has the coder of each; what is sent and what is priced follow from the same row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from palmette.errors import ArgumentFault, InputError, expected_name

Codec = Literal["none", "int8", "int4", "int4-delta"]

FLOAT_BYTES = 4
"""Bytes of a number that is not coded: the sizes of a profile are those of 32-bit floats."""
LABEL_BYTES = 8
"""Bytes of a label that travels beside an output."""


@dataclass(frozen=True, kw_only=True)
class CodecKind:
    """What the rest needs to know about a codec."""

    lossy: bool = False
    """Whether other numbers may arrive than were sent."""
    coded_bits: int | None = None
    """Bits of a coded number; None where a number stays as it is."""
    has_scales: bool = False
    """Whether a message has one number more for each channel (the second dimension of a batch)."""
    block: int | None = None
    """Of how many numbers in a row a message has one number more, if it has."""
    returning: Codec | None = None
    """How the gradient of an output returns; None for the same way."""
    first: Codec | None = None
    """How the output of a sample travels that the receiver has had none of; later ones travel as deltas to the last,
    which both ends keep. None where nothing is kept."""
    on_request: bool = False
    """Whether only plans that name it use it: strategies do not choose it."""
    counts_labels: bool = False
    """Whether the labels beside an output count in its price; a plain message costs the profile's bytes alone."""

    def message_bytes(self, numbers: float, channels: int, width: int = FLOAT_BYTES) -> float:
        """Bytes of a message of so many numbers of ``width`` bytes in so many channels, without labels."""
        body = numbers * width if self.coded_bits is None else math.ceil(math.ceil(numbers) * self.coded_bits / 8)
        scales = channels if self.has_scales else 0
        return body + (scales + (0 if self.block is None else math.ceil(numbers / self.block))) * width

    @property
    def keeps(self) -> bool:
        """Whether both ends keep the last output of each sample."""
        return self.first is not None

    @property
    def ratio(self) -> float:
        """The bytes that one more number adds to a message, as a part of what it takes itself."""
        return 1.0 if self.coded_bits is None else self.coded_bits / (8 * FLOAT_BYTES)


CODEC_KINDS: dict[Codec, CodecKind] = {
    "none": CodecKind(),
    "int8": CodecKind(lossy=True, coded_bits=8, has_scales=True, counts_labels=True),
    "int4": CodecKind(lossy=True, coded_bits=4, block=64, counts_labels=True, returning="int8", on_request=True),
    "int4-delta": CodecKind(lossy=True, coded_bits=4, block=64, counts_labels=True, returning="int8", first="int8"),
}
assert set(CODEC_KINDS) == set(get_args(Codec))

PLAIN: Codec = "none"
"""Numbers as they are."""
SMALLEST: Codec = min(
    (name for name, kind in CODEC_KINDS.items() if not kind.on_request and not kind.keeps),
    key=lambda name: CODEC_KINDS[name].ratio,
)
"""The codec with the smallest messages of those that strategies choose and that keep nothing."""
DELTAS: Codec = "int4-delta"
"""The codec of outputs as deltas to kept ones."""


def known_codec(text: str) -> Codec:
    """The codec of outputs of this name.

    Raises:
        InputError: there is none.
    """
    for codec in CODEC_KINDS:
        if text == codec:
            return codec
    raise InputError(ArgumentFault("output_codecs", text, expected_name(text, "codec", list(CODEC_KINDS))))


def returning_codec(codec: Codec) -> Codec:
    """How the gradient of an output returns that travels with this codec."""
    return CODEC_KINDS[codec].returning or codec
