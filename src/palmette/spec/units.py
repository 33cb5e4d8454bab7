"""Quantities as people write them, and SI inside.

A dimension knows its units; ``parse`` turns ``5 Mbit/s`` into ``5e6`` and refuses a bare number, ``write``
turns it back into the text with the fewest digits that reads as exactly the same number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_MOST_DIGITS = 6  # of a quantity in a message
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\s\d]\S*)\s*")


@dataclass(frozen=True)
class Dimension:
    """A kind of quantity: what it is called, the factor of each unit to SI, and an example."""

    name: str
    units: dict[str, float]
    example: str

    def parse(self, text: Any) -> float:
        """The quantity in SI.

        Raises:
            ValueError: ``text`` is not a number with one of this dimension's units; the message says
                what was expected.
        """
        match = _QUANTITY.fullmatch(text.replace("\N{GREEK SMALL LETTER MU}", "µ")) if isinstance(text, str) else None
        if match is None or match[2] not in self.units:
            raise ValueError(self.expected)
        try:
            return float(Decimal(match[1]) * _exact(self.units[match[2]]))
        except ArithmeticError:
            raise ValueError(self.expected) from None

    def write(self, value: float) -> str:
        """The quantity in the unit that takes the fewest digits and reads back as the same number.

        Of several, numbers from 1 to below 1,000 come first, then the order of the units: 8 Mbit/s, not 1 MB/s.
        """
        found = [(number, unit) for unit, factor in self.units.items() if (number := self._exactly(value, factor))]
        if not found:
            return f"{_exact(value) / _exact(self.units[self.base]):f} {self.base}"
        number, unit = min(found, key=lambda each: (_digits(each[0]), not Decimal(each[0]) < 1000))
        return f"{number}%" if unit == "%" else f"{number} {unit}"

    def show(self, value: float) -> str:
        """The quantity for a message: as ``write`` has it if that is short, else rounded to four digits."""
        exact = self.write(value)
        if _digits(exact) <= _MOST_DIGITS:
            return exact
        units = [(factor, unit) for unit, factor in self.units.items() if factor <= value]
        factor, unit = max(units, default=(self.units[self.base], self.base))
        return f"{value / factor:.4g}{'' if unit == '%' else ' '}{unit}"

    def _exactly(self, value: float, factor: float) -> str | None:
        """The number before a unit, where it is at least 1 and reads back as the same value."""
        if value < factor:
            return None
        number = f"{_exact(value) / _exact(factor):f}"
        return number if len(number) < 16 and float(Decimal(number) * _exact(factor)) == value else None

    @property
    def base(self) -> str:
        """The unit that comes first: SI, or what stands for it."""
        return next(iter(self.units))

    @property
    def expected(self) -> str:
        """What a person should have written."""
        return f"expected {self.name} with a unit ({', '.join(self.units)}), such as {self.example}"


def _digits(text: str) -> int:
    return sum(each.isdigit() for each in text)


def _exact(number: float) -> Decimal:
    """The decimal number that a person means by a float: 1e-9 is not 1.00000000000000006e-9."""
    return Decimal(repr(number)).normalize()


SIZE = Dimension(
    "a size",
    {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    | {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40},
    "1 GiB",
)
BANDWIDTH = Dimension(
    "a bandwidth",
    {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9} | {"B/s": 8, "kB/s": 8e3, "MB/s": 8e6, "GB/s": 8e9},
    "5 Mbit/s",
)
DURATION = Dimension(
    "a duration",
    {"s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60, "h": 3600, "d": 86400},
    "10 ms",
)
POWER = Dimension("a power", {"W": 1, "mW": 1e-3, "kW": 1e3}, "3.5 W")
ENERGY = Dimension(
    "an energy",
    {"J": 1, "mJ": 1e-3, "kJ": 1e3, "MJ": 1e6, "mWh": 3.6, "Wh": 3600, "kWh": 3.6e6},
    "2 Wh",
)
ENERGY_PER_BIT = Dimension(
    "an energy a bit",
    {"J/bit": 1, "mJ/bit": 1e-3, "uJ/bit": 1e-6, "µJ/bit": 1e-6, "nJ/bit": 1e-9, "pJ/bit": 1e-12},
    "20 nJ/bit",
)
CARBON = Dimension("a carbon intensity", {"g/kWh": 1, "kg/kWh": 1e3, "mg/kWh": 1e-3}, "300 g/kWh")
SHARE = Dimension("a share", {"%": 0.01}, "30%")
