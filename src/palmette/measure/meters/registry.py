"""Meters by name, as ``--meter`` has them: a kind, or ``kind:argument``. A new kind is one row of ``METERS``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from palmette.errors import ArgumentFault, InputError, expected_name, nearest
from palmette.measure.meters.base import Meter


@dataclass(frozen=True)
class MeterKind:
    """A kind of meter: the name of its argument, None if it takes none, how to open one, and whose it is."""

    argument: str | None
    open: Callable[[str], Meter]
    of_this_machine: bool = True


def _zeus(_: str) -> Meter:
    from palmette.measure.meters.zeus import ZeusMeter

    return ZeusMeter()


def _replay(file: str) -> Meter:
    from palmette.measure.meters.replay import load_replay

    return load_replay(file)


def _catalogue(name: str) -> Meter:
    from palmette.measure.meters.catalogue import CatalogueMeter
    from palmette.zoo.hardware import hardware

    return CatalogueMeter(hardware(name))


METERS = {
    "zeus": MeterKind(None, _zeus),
    "replay": MeterKind("FILE", _replay, of_this_machine=False),
    "catalogue": MeterKind("NAME", _catalogue),
}
USAGES = {name: name if kind.argument is None else f"{name}:{kind.argument}" for name, kind in METERS.items()}


def open_meter(text: str) -> Meter:
    """The meter that an option names.

    Raises:
        InputError: there is none of this name, or it does not work here; says why.
    """
    name, _, argument = text.partition(":")
    kind = METERS.get(name)
    if kind is None and nearest(name, METERS) is not None:
        raise InputError(ArgumentFault("meter", text, expected_name(name, "meter", list(METERS))))
    if kind is None or bool(argument) != (kind.argument is not None):
        raise InputError(ArgumentFault("meter", text, f"expected one of {', '.join(USAGES.values())}"))
    return kind.open(argument)
