"""How activations and gradients travel: the coder of each codec.

A new codec is a row of ``spec.codec`` (outputs) or ``spec.exchange`` (gradients of replicas), which says how large its
messages are, a file of ``coders``, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable

from palmette.compress.coders.base import Coder
from palmette.compress.coders.bf16 import Bf16Coder
from palmette.compress.coders.int4 import Int4Coder
from palmette.compress.coders.int8 import Int8Coder
from palmette.compress.coders.int8_blocks import Int8BlockCoder
from palmette.compress.coders.lowrank import LowRankCoder
from palmette.compress.coders.plain import PlainCoder
from palmette.compress.coders.topk import TopKCoder
from palmette.spec.codec import CODEC_KINDS, Codec
from palmette.spec.exchange import EXCHANGE_KINDS, Exchange, ExchangeCodec

CODERS: dict[Codec, Coder] = {"none": PlainCoder(), "int8": Int8Coder(), "int4": Int4Coder(), "int4-delta": Int4Coder()}
"""Of a codec that keeps outputs it is that of deltas (``delta_coding``)."""
assert CODERS.keys() == CODEC_KINDS.keys(), "every codec of outputs has a coder"

EXCHANGE_CODERS: dict[ExchangeCodec, Callable[[Exchange], Coder]] = {
    "none": lambda _: PlainCoder(),
    "bf16": Bf16Coder,
    "int8": Int8BlockCoder,
    "topk": TopKCoder,
    "lowrank": LowRankCoder,
}
assert EXCHANGE_CODERS.keys() == EXCHANGE_KINDS.keys(), "every codec of exchanges has a coder"


def exchange_coder(exchange: Exchange) -> Coder:
    """The coder of the gradients in an exchange."""
    return EXCHANGE_CODERS[exchange.codec](exchange)
