"""The linear regression of equation (1): metered watts on counters, and how far off it is on samples it has not seen.

Each counter is scaled by its range before the least squares, so that hertz and shares of 1 weigh alike; a counter that
does not vary says nothing beside the constant and is left out, as is one that a machine does not have. The error is
that of five fits, each judged on the fifth of the samples that it was not fitted on; the model is the fit on all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palmette.errors import Fault, InputError
from palmette.measure.csv_table import Row, csv_table
from palmette.spec.power import COUNTERS, PowerModel

FOLDS = 5
WATTS = "power_w"
LEAST, MOST = 1e-18, 1e18  # what a counter varies by, and what it comes to: so that squares and quotients stay finite
Floats = NDArray[np.float64]


class Samples:
    """Counters and watts, a row a sample; ``names`` are the columns that can be used, ``left_out`` the others."""

    def __init__(self, columns: Mapping[str, Sequence[float]], watts: Sequence[float], meter: str) -> None:
        self.watts, self.meter = np.array(watts, dtype=np.float64), meter
        varying = [name for name in COUNTERS if len(watts) and name in columns and np.ptp(columns[name]) > LEAST]
        self.names = varying
        self.left_out = [name for name in COUNTERS if name not in varying]
        rows = [np.array(columns[name], dtype=np.float64) for name in varying]
        self.counters = np.stack(rows, axis=1) if rows else np.zeros((len(watts), 0))


def fit(samples: Samples, file: str = "") -> PowerModel:
    """The model of all samples, with its error on left-out ones.

    Raises:
        InputError: there are too few samples for so many counters, too many that are the same, or no model fits.
    """
    needed = max(FOLDS, 2 * (len(samples.names) + 1))
    if len(samples.watts) < needed:
        expected = f"expected at least {needed}, for {len(samples.names)} counters"
        raise InputError(Fault("", f"{len(samples.watts)} samples", expected, file))
    different = len(np.unique(samples.counters, axis=0))
    if different <= len(samples.names):
        expected = f"expected at least {len(samples.names) + 1}, for {len(samples.names)} counters"
        raise InputError(Fault("", f"{different} samples with different counters", expected, file))
    error = left_out_error(samples.counters, samples.watts)
    if not error <= MOST:
        raise InputError(
            Fault("", f"{error:.3g}", "the error on left-out samples; expected watts of one machine", file)
        )
    intercept, weights = regression(samples.counters, samples.watts)
    return PowerModel(
        intercept_w=intercept,
        coefficients=dict(zip(samples.names, weights.tolist(), strict=True)),
        left_out=tuple(samples.left_out),
        mean_error=error,
        samples=len(samples.watts),
        meter=samples.meter,
    )


def regression(counters: Floats, watts: Floats) -> tuple[float, Floats]:
    """Ordinary least squares: the constant and a weight for each column."""
    middle, spread = counters.mean(axis=0), np.ptp(counters, axis=0)  # exactly 0 for equals, as no deviation is
    spread = np.where(spread > LEAST, spread, 1.0)
    scaled = np.column_stack([np.ones(len(watts)), (counters - middle) / spread])
    found, *_ = np.linalg.lstsq(scaled, watts, rcond=None)
    weights: Floats = found[1:] / spread
    return float(found[0] - weights @ middle), weights


def left_out_error(counters: Floats, watts: Floats) -> float:
    """Mean |predicted − metered| / metered over samples that a fit has not seen."""
    order = np.random.default_rng(0).permutation(len(watts))
    errors = np.zeros(len(watts))
    for fold in range(FOLDS):
        out = order[fold::FOLDS]
        kept = np.setdiff1d(order, out)
        intercept, weights = regression(counters[kept], watts[kept])
        errors[out] = np.abs(intercept + counters[out] @ weights - watts[out]) / watts[out]
    return float(errors.mean())


def load_samples(path: str) -> Samples:
    """Samples from a CSV with a column ``power_w`` and any of the counters; ``meter`` names where watts come from.

    A column with an empty cell counts as one that the machine does not have.

    Raises:
        InputError: it cannot be read, has no watts or no counter, or a cell is no number; names line and column.
    """
    header, rows = csv_table(path)
    known = _known_columns(header, rows, path)
    wrong = [
        Fault(f"line {row.line}", f"{len(row.cells)} cells", f"expected {len(header)}, one a column", path)
        for row in rows
        if len(row.cells) != len(header)
    ]
    columns = {} if wrong else {name: [_number(row.cells[header.index(name)]) for row in rows] for name in known}
    wrong += [
        Fault(f"line {row.line}, {name}", row.cells[header.index(name)] or "nothing", expected, path)
        for name, values in columns.items()
        for row, value in zip(rows, values, strict=True)
        if (expected := _against(name, value))
    ]
    if wrong:
        raise InputError(wrong)
    meters = {row.cells[header.index("meter")] for row in rows} - {""} if "meter" in header else set()
    return Samples(columns, columns.pop(WATTS), ", ".join(sorted(meters)) or "unknown")


def _known_columns(header: list[str], rows: list[Row], path: str) -> list[str]:
    """Watts, and the counters in whose columns no cell is empty.

    Raises:
        InputError: there is none of either, or one stands there twice.
    """

    def fault(value: str, expected: str) -> InputError:
        return InputError(Fault("header", value or "nothing", expected, path))

    if WATTS not in header:
        raise fault(",".join(header), f"expected a column {WATTS}")
    if twice := [name for name in (WATTS, "meter", *COUNTERS) if header.count(name) > 1]:
        raise fault(twice[0], "stands there twice; expected it once")
    at = {name: header.index(name) for name in COUNTERS if name in header}
    known = [name for name, k in at.items() if all(k >= len(row.cells) or row.cells[k] for row in rows)]
    if not known:
        raise fault(",".join(header), f"expected one of {', '.join(COUNTERS)}")
    return [WATTS, *known]


def _against(name: str, value: float) -> str | None:
    """What is expected instead of a value."""
    if value > MOST:
        return f"expected at most {MOST:g}"
    if name == WATTS:
        return None if value > 0 else "expected more than 0 W"
    return None if value >= 0 else "expected a number of 0 or more"


def _number(text: str) -> float:
    """The number, or none that is one."""
    try:
        return float(text)
    except ValueError:
        return math.nan
