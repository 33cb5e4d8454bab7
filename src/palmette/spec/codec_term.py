"""What a codec costs in loss: a factor of a learning curve for each kind of numbers that travel coded.

Outputs of layers, gradients of replicas and differences of their weights are told apart: gradients are coded in every
step and differences once in a window, both with what was lost the last time added; outputs are coded as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Self, get_args

from pydantic import model_validator

from palmette.errors import InputError, expected_name
from palmette.spec.codec import CODEC_KINDS, Codec
from palmette.spec.document import LocatedFault, Number, OpenDocument, Positive, refuse
from palmette.spec.exchange import known_exchange
from palmette.spec.plan import Phase

CodedNumbers = Literal["outputs", "gradients", "differences"]


class Coding(NamedTuple):
    """What travels coded, and how: a codec as ``--exchange-codec`` takes it, for outputs its name."""

    of: CodedNumbers
    codec: str

    def __str__(self) -> str:
        return f"{self.of} as {self.codec}"

    def options(self, window: float = 1.0) -> str:
        """The options of a pilot whose runs would tell what it costs, where replicas take so many steps apart."""
        if self.of == "outputs":
            return f"--output-codecs {self.codec}"
        apart = f" --windows 1,{window:g}" if self.of == "differences" else ""
        return f"--exchange-codecs {self.codec}{apart}"


class CodecTerm(OpenDocument):
    """The factor by which a coding raises what is left above the floor of a learning curve.

    ``error`` is its standard error as a part of it, by how much runs differ that should not; None where the runs were
    too few to tell.
    """

    of: CodedNumbers
    codec: str
    factor: Positive
    error: Number | None = None

    @model_validator(mode="after")
    def _is_lossy(self) -> Self:
        wrong = _unknown(self.of, self.codec)
        if wrong is not None:
            refuse("CodecTerm", [LocatedFault(("codec",), self.codec, wrong)])
        return self

    @property
    def coding(self) -> Coding:
        """What it is the factor of, with the codec's usual number where it says none."""
        return Coding(self.of, self.codec if self.of == "outputs" else known_exchange(self.codec).argument)

    @property
    def shown(self) -> str:
        """The factor with its error, in few words."""
        about = "error unknown" if self.error is None else f"± {self.error:.1%}"
        return f"× {self.factor:.4g} ({about})"


def _unknown(of: CodedNumbers, codec: str) -> str | None:
    """What was expected where a codec is none of these numbers, or changes nothing."""
    if of == "outputs":
        lossy = [name for name, kind in CODEC_KINDS.items() if kind.lossy]
        return None if codec in lossy else expected_name(codec, "codec of outputs", lossy)
    try:
        exchange = known_exchange(codec)
    except InputError as error:
        return error.faults[0].expected
    return None if exchange.kind.lossy else "expected a codec that changes numbers"


def codings_of(phase: Phase) -> tuple[Coding, ...]:
    """What travels coded in a phase."""
    return tuple(_codings(phase))


def _codings(phase: Phase) -> Iterator[Coding]:
    known: tuple[Codec, ...] = get_args(Codec)
    used = {each.codec for each in phase.instances if each.into is not None and CODEC_KINDS[each.codec].lossy}
    yield from (Coding("outputs", codec) for codec in known if codec in used)
    travels = phase.replicas > 1 and not phase.sync_kind.has_server
    if phase.sync_kind.one_model:
        travels = phase.shares_layers()
    if travels and phase.exchange.kind.lossy:
        of: CodedNumbers = "differences" if phase.sync_kind.averages_weights else "gradients"
        yield Coding(of, phase.exchange.argument)
