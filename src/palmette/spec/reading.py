"""Quantities as people read them: three digits, and the unit that suits them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palmette.spec.goal import Spending

_MOST_PLACES = 6  # of an amount of money


def time(seconds: float | None) -> str:
    """A duration."""
    if seconds is None:
        return "–"
    for unit, length in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= length * (1 if unit in ("s", "ms") else 2):
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def energy(joules: float | None) -> str:
    """An energy."""
    if joules is None:
        return "–"
    return _from_milli(joules, "J")


def joule_seconds(product: float | None) -> str:
    """Energy times time."""
    if product is None:
        return "–"
    return f"{product:.3g} J·s" if product < 1 else _three_digits(product, "J·s")


def money(amount: float | None, currency: str | None) -> str:
    """An amount of money: cents to the last, and three digits of what is less than one."""
    if amount is None or currency is None:
        return "–"
    if 0 < amount < 1:
        places = max(2, 2 - math.floor(math.log10(amount)))
        return f"{amount:.{places}f} {currency}" if places <= _MOST_PLACES else f"{amount * 1e6:.3g} µ{currency}"
    return f"{amount:.2f} {currency}"


def carbon(grams: float | None) -> str:
    """A mass of carbon dioxide."""
    if grams is None:
        return "–"
    return _from_milli(grams, "g CO2")


def spending(spent: Spending, currency: str | None = None) -> str:
    """What is spent: time and energy, and money and carbon where they are known."""
    parts = [time(spent.time_s), energy(spent.energy_j)]
    parts += [money(spent.cost, currency)] if spent.cost is not None and currency is not None else []
    return ", ".join(parts + ([carbon(spent.carbon_g)] if spent.carbon_g is not None else []))


def _from_milli(value: float, unit: str) -> str:
    """A number in thousandths of its unit if it is less than one, else with the largest prefix."""
    return f"{value * 1000:.3g} m{unit}" if 0 < value < 1 else _three_digits(value, unit)


def _three_digits(value: float, unit: str) -> str:
    """A number with the largest prefix that leaves at least 1."""
    for prefix, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def size(many_bytes: float) -> str:
    """A size."""
    for unit, factor in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if many_bytes >= factor:
            return f"{many_bytes / factor:.3g} {unit}"
    return f"{many_bytes:.0f} B"


def rates(up_bps: float, down_bps: float) -> str:
    """The bandwidths of a link's two directions, as one where they are equal."""
    return bandwidth(up_bps) if up_bps == down_bps else f"{bandwidth(up_bps)} up, {bandwidth(down_bps)} down"


def bandwidth(bps: float) -> str:
    """A bandwidth."""
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= factor:
            return f"{bps / factor:.3g} {unit}"
    return f"{bps:.3g} bit/s"


def layer_range(layers: tuple[int, int]) -> str:
    """The numbers of the first and the last layer."""
    first, last = layers
    return f"{first}–{last}" if first < last else str(first)
