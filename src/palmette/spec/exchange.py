"""Exchanges: how gradients or differences of replicas travel to where they meet and back, and how large they are.

``none``     numbers as they are
``bf16``     the upper half of each float: 2 bytes per number
``int8``     a byte for each number, and a scale for each block of 256 numbers of a weight
``topk``     the ``ratio`` of a weight's numbers that are largest, each with its index
``lowrank``  two thin matrices of ``rank`` columns whose product is close to a weight's gradient (PowerSGD)

Each weight is coded by itself. ``compress.codec`` has the coder of each kind; what is sent and what is priced follow
from the same row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from palmette.errors import ArgumentFault, InputError, expected_name
from palmette.spec.codec import FLOAT_BYTES
from palmette.spec.document import LocatedFault, OpenDocument, refuse

ExchangeCodec = Literal["none", "bf16", "int8", "topk", "lowrank"]
BLOCK = 256
"""Numbers that share a scale."""
INDEX_BYTES = 4
"""Bytes of the index of a number within its weight."""
MASKED_BYTES = 8
"""Bytes of a number that is masked for secure aggregation."""
USUAL_RATIO = 0.01
USUAL_RANK = 2

Shape = Sequence[int]


class Exchange(OpenDocument):
    """How gradients travel in an exchange: the codec, and what it has to be told."""

    codec: ExchangeCodec = "none"
    ratio: Annotated[float, Field(strict=True, gt=0, le=1)] | None = None
    rank: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None

    @model_validator(mode="after")
    def _takes_its_options(self) -> Self:
        given = {"ratio": self.ratio, "rank": self.rank}
        wrong = [
            LocatedFault((name,), value, f"{self.codec} has none; expected it with {_with_option(name)}")
            for name, value in given.items()
            if value is not None and name not in self.kind.options
        ]
        if wrong:
            refuse("Exchange", wrong)
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if value is not None}

    def __str__(self) -> str:
        return " ".join([self.codec, *(f"{name} {value:g}" for name, value in self._options().items())])

    @property
    def argument(self) -> str:
        """As ``known_exchange`` reads it; its usual number is always said, so that equal exchanges read the same."""
        return ":".join([self.codec, *(f"{value:g}" for value in self._options().values())])

    def _options(self) -> dict[str, float]:
        usual: dict[str, float] = {"ratio": self.kept_ratio, "rank": self.columns}
        return {name: usual[name] for name in self.kind.options}

    @property
    def kind(self) -> ExchangeKind:
        """What sets its codec apart."""
        return EXCHANGE_KINDS[self.codec]

    @property
    def kept_ratio(self) -> float:
        """The part of a weight's numbers that ``topk`` sends."""
        return USUAL_RATIO if self.ratio is None else self.ratio

    @property
    def columns(self) -> int:
        """The columns of the matrices that ``lowrank`` sends."""
        return USUAL_RANK if self.rank is None else self.rank

    @property
    def work(self) -> float:
        """The time of coding a number, as a part of that with the codec's usual options."""
        return self.columns / USUAL_RANK if "rank" in self.kind.options else 1.0

    def bytes_of(self, shape: Shape, width: int = FLOAT_BYTES) -> int:
        """Bytes of a weight's gradient on the wire, whose numbers have ``width`` bytes."""
        return self.kind.bytes_of(self, shape, width) if math.prod(shape) else 0


@dataclass(frozen=True, kw_only=True)
class ExchangeKind:
    """What the rest needs to know about a codec of exchanges."""

    bytes_of: Callable[[Exchange, Shape, int], int]
    """Bytes of a weight of some shape, which has numbers of so many bytes."""
    options: tuple[str, ...] = ()
    """The fields of an ``Exchange`` that it takes."""
    lossy: bool = True
    """Whether other numbers may arrive than were sent, so that what is missing is kept for the next time."""
    needs_shapes: bool = False
    """Whether the size depends on the shape of a weight, not on how many numbers it has alone."""


def kept_numbers(exchange: Exchange, numbers: int) -> int:
    """How many of a weight's numbers ``topk`` sends."""
    return min(numbers, max(1, math.ceil(exchange.kept_ratio * numbers - 1e-9)))


def blocks_of(numbers: int) -> int:
    """The blocks of a weight's numbers that share a scale; the last may be shorter."""
    return -(-numbers // BLOCK)


def matrix_of(shape: Shape) -> tuple[int, int]:
    """The rows and columns of a weight as a matrix: its first dimension, and all others."""
    return (shape[0], math.prod(shape[1:])) if shape else (1, 1)


def columns_of(exchange: Exchange, shape: Shape) -> int:
    """The columns that ``lowrank`` sends of a weight; 0 where the weight itself takes no more."""
    rows, columns = matrix_of(shape)
    rank = min(exchange.columns, rows, columns)
    return rank if rank * (rows + columns) < rows * columns else 0


def _lowrank_bytes(exchange: Exchange, shape: Shape, width: int) -> int:
    rank = columns_of(exchange, shape)
    return (rank * sum(matrix_of(shape)) if rank else math.prod(shape)) * width


EXCHANGE_KINDS: dict[ExchangeCodec, ExchangeKind] = {
    "none": ExchangeKind(bytes_of=lambda _, shape, width: math.prod(shape) * width, lossy=False),
    "bf16": ExchangeKind(bytes_of=lambda _, shape, _width: 2 * math.prod(shape)),
    "int8": ExchangeKind(bytes_of=lambda _, shape, width: math.prod(shape) + blocks_of(math.prod(shape)) * width),
    "topk": ExchangeKind(
        bytes_of=lambda exchange, shape, width: kept_numbers(exchange, math.prod(shape)) * (width + INDEX_BYTES),
        options=("ratio",),
    ),
    "lowrank": ExchangeKind(bytes_of=_lowrank_bytes, options=("rank",), needs_shapes=True),
}
assert set(EXCHANGE_KINDS) == set(get_args(ExchangeCodec))

PLAIN_EXCHANGE = Exchange()
"""Gradients travel as they are."""


def _with_option(name: str) -> str:
    return ", ".join(codec for codec, kind in EXCHANGE_KINDS.items() if name in kind.options)


def known_exchange(text: str) -> Exchange:
    """The exchange that a text such as ``int8``, ``topk:0.01`` or ``lowrank:2`` says.

    Raises:
        InputError: there is no such codec, or it takes no such number.
    """
    name, _, given = text.partition(":")
    known: Iterable[ExchangeCodec] = get_args(ExchangeCodec)
    for codec in known:
        if name == codec:
            return _with_number(codec, given, text) if given else Exchange(codec=codec)
    raise InputError(ArgumentFault("exchange_codec", text, expected_name(name, "codec", list(known))))


def _with_number(codec: ExchangeCodec, given: str, text: str) -> Exchange:
    options = EXCHANGE_KINDS[codec].options
    wanted = f"expected a number such as {codec}:{USUAL_RATIO if 'ratio' in options else USUAL_RANK}"
    expected = wanted if options else f"{codec} takes no number; expected {codec}"
    try:
        number: Any = float(given) if "ratio" in options else int(given)
        return Exchange.model_validate({"codec": codec, **dict.fromkeys(options or ("ratio",), number)})
    except ValueError:
        raise InputError(ArgumentFault("exchange_codec", text, expected)) from None
