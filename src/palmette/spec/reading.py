"""Quantities as people read them: three digits, and the unit that suits them."""

from __future__ import annotations


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
    return (
        f"{joules / 1000:.3g} kJ" if joules >= 1000 else f"{joules:.3g} J" if joules >= 1 else f"{joules * 1000:.3g} mJ"
    )


def joule_seconds(product: float | None) -> str:
    """Energy times time."""
    return "–" if product is None else f"{product:.3g} J·s"


def size(many_bytes: float) -> str:
    """A size."""
    for unit, factor in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if many_bytes >= factor:
            return f"{many_bytes / factor:.3g} {unit}"
    return f"{many_bytes:.0f} B"


def bandwidth(bps: float) -> str:
    """A bandwidth."""
    for unit, factor in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if bps >= factor:
            return f"{bps / factor:.3g} {unit}"
    return f"{bps:.3g} bit/s"
