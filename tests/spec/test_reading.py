"""Quantities as people read them."""

from __future__ import annotations

import pytest

from palmette.spec.reading import energy, joule_seconds, time


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (None, "–"),
        (0.0, "0 J"),
        (0.25, "250 mJ"),
        (1.0, "1 J"),
        (999.0, "999 J"),
        (2.27e3, "2.27 kJ"),
        (2.27e6, "2.27 MJ"),
        (3e12, "3e+03 GJ"),
    ],
)
def test_energies(joules: float | None, text: str) -> None:
    assert energy(joules) == text


@pytest.mark.parametrize(
    ("product", "text"), [(None, "–"), (0.00101, "0.00101 J·s"), (8.98e4, "89.8 kJ·s"), (4.5e6, "4.5 MJ·s")]
)
def test_joule_seconds(product: float | None, text: str) -> None:
    assert joule_seconds(product) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "–"), (0.0, "0 µs"), (0.233, "233 ms"), (100, "100 s"), (7200, "2 h")]
)
def test_times(seconds: float | None, text: str) -> None:
    assert time(seconds) == text
