"""Quantities read as people write them, and are written so that they read back as the same number."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palmette.spec import units
from palmette.spec.units import BANDWIDTH, DURATION, ENERGY, ENERGY_PER_BIT, POWER, SHARE, SIZE, Dimension

DIMENSIONS = [value for value in vars(units).values() if isinstance(value, Dimension)]


@pytest.mark.parametrize(
    ("dimension", "text", "si"),
    [
        (BANDWIDTH, "5 Mbit/s", 5e6),
        (BANDWIDTH, "1.5 MB/s", 12e6),
        (BANDWIDTH, "3Gbit/s", 3e9),
        (SIZE, "1 GiB", 2**30),
        (SIZE, "1 GB", 1e9),
        (SIZE, "12 B", 12),
        (POWER, "3.5 W", 3.5),
        (POWER, "250 mW", 0.25),
        (DURATION, "10 ms", 0.01),
        (DURATION, "2h", 7200),
        (DURATION, "90 s", 90),
        (DURATION, "3 µs", 3e-6),
        (DURATION, "3 \N{GREEK SMALL LETTER MU}s", 3e-6),
        (ENERGY_PER_BIT, "20 nJ/bit", 2e-8),
        (SHARE, "30%", 0.3),
        (SHARE, "12.5 %", 0.125),
        (ENERGY, "2 Wh", 7200),
        (ENERGY, "1e3 J", 1000),
        (ENERGY, "  +.5 kJ ", 500),
    ],
)
def test_a_quantity_is_read_into_si(dimension: Dimension, text: str, si: float) -> None:
    assert dimension.parse(text) == si


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda d: d.name)
@pytest.mark.parametrize(
    "bare", [5, 5.0, "5", "5.0", "1e3", "", " ", None, True, "W", "5 5 W", "5 furlongs", "-", ".", "NaN W"]
)
def test_what_has_no_unit_is_refused_with_the_units_accepted(dimension: Dimension, bare: object) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        dimension.parse(bare)
    for unit in dimension.units:
        assert unit in str(caught.value)
    assert dimension.example in str(caught.value)


def test_units_are_spelt_exactly() -> None:
    for text in ("5 mbit/s", "5 Mbit", "5 MBit/s", "5 Mb/s"):
        with pytest.raises(ValueError, match="Mbit/s"):
            BANDWIDTH.parse(text)


@pytest.mark.parametrize(
    ("dimension", "si", "text"),
    [
        (SIZE, 2.0**30, "1 GiB"),
        (SIZE, 1e9, "1 GB"),
        (SIZE, 60_000.0, "60 kB"),
        (SIZE, 1536.0, "1.5 KiB"),
        (BANDWIDTH, 5e6, "5 Mbit/s"),
        (BANDWIDTH, 8e6, "8 Mbit/s"),
        (BANDWIDTH, 20e6, "20 Mbit/s"),
        (DURATION, 90.0, "90 s"),
        (SHARE, 0.3, "30%"),
        (DURATION, 0.002, "2 ms"),
        (DURATION, 0.0, "0 s"),
        (ENERGY, 7200.0, "2 Wh"),
        (ENERGY_PER_BIT, 9e-8, "90 nJ/bit"),
    ],
)
def test_a_quantity_is_written_as_a_person_would(dimension: Dimension, si: float, text: str) -> None:
    assert dimension.write(si) == text


@pytest.mark.parametrize(
    ("dimension", "si", "text"),
    [
        (SIZE, 60_000.0, "60 kB"),
        (SIZE, 12_345_678_912.0, "11.5 GiB"),
        (SHARE, 1 / 3, "33.33%"),
        (SIZE, 1 / 3, "0.3333 B"),
    ],
)
def test_a_message_rounds_what_has_many_digits(dimension: Dimension, si: float, text: str) -> None:
    assert dimension.show(si) == text


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(DIMENSIONS), st.floats(min_value=0, max_value=1e18))
def test_every_number_reads_back_as_itself(dimension: Dimension, value: float) -> None:
    assert dimension.parse(dimension.write(value)) == value


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(DIMENSIONS), st.integers(0, 10**6), st.data())
def test_round_numbers_in_any_unit_are_exact(dimension: Dimension, number: int, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(list(dimension.units)))
    assert dimension.parse(f"{number} {unit}") == pytest.approx(number * dimension.units[unit], rel=1e-15)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(DIMENSIONS), st.text(alphabet="0123456789.eE+-%WsJBbit/ Mµ\n\t\x00٣", max_size=30))
def test_any_text_is_read_or_refused(dimension: Dimension, text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(dimension.parse(text), float)


@pytest.mark.parametrize(
    "text",
    ["1" * 100_000 + " a b", "1." * 50_000, "1e" + "1" * 100_000 + " x y", " " * 100_000 + "1", "a" * 100_000 + " b"],
)
def test_long_nonsense_is_refused_before_the_timeout(text: str) -> None:
    with pytest.raises(ValueError, match="expected a power"):
        POWER.parse(text)
