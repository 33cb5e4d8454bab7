"""What a meter is: it is told when something begins and ends, and says how many joules went in between."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from palmette.errors import Fault, InputError

KINDS = ("zeus", "replay:FILE", "catalogue:NAME")


class Metered(NamedTuple):
    """Joules of a stretch of time, and where they come from: ``measured: …`` or ``modelled: …``."""

    seconds: float
    joules: float
    source: str

    @property
    def watts(self) -> float:
        """Mean power."""
        return self.joules / self.seconds


class Meter(Protocol):
    """Meters one stretch of time after another."""

    source: str

    def begin(self) -> None:
        """A stretch begins now."""
        ...

    def end(self) -> Metered:
        """It ends now.

        Raises:
            RunError: the meter has nothing to say about it.
        """
        ...


def meter(text: str) -> Meter:
    """The meter that an option names.

    Raises:
        InputError: there is none of this name, or it does not work here; says why.
    """
    kind, _, rest = text.partition(":")
    if kind == "zeus" and not rest:
        from palmette.measure.meters.zeus import ZeusMeter

        return ZeusMeter()
    if kind == "replay" and rest:
        from palmette.measure.meters.replay import replayed

        return replayed(rest)
    if kind == "catalogue" and rest:
        from palmette.measure.meters.catalogue import CatalogueMeter
        from palmette.zoo.hardware import hardware

        return CatalogueMeter(hardware(rest))
    raise InputError(Fault("--meter", text, f"expected one of {', '.join(KINDS)}"))
