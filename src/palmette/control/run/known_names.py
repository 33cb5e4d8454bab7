"""The names of engines, testbeds and transports that a user may give."""

from __future__ import annotations

from collections.abc import Iterable

from palmette.errors import ArgumentFault, InputError, expected_name
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.transports.registry import TRANSPORTS
from palmette.testbed.registry import TESTBEDS

KNOWN: dict[str, Iterable[str]] = {"engine": ENGINES, "testbed": TESTBEDS, "transport": TRANSPORTS}


def refuse_unknown(argument: str, name: str) -> None:
    """Refuse a name that is not registered.

    Raises:
        InputError: says which are.
    """
    if name not in KNOWN[argument]:
        raise InputError(ArgumentFault(argument, name, expected_name(name, argument, list(KNOWN[argument]))))
