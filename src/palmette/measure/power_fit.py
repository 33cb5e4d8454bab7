"""The linear regression of equation (1): metered watts on counters, and how far off it is on samples it has not seen.

Each counter is scaled by its spread before the least squares, so that hertz and shares of 1 weigh alike; a counter that
does not vary says nothing beside the constant and is left out, as is one that a machine does not have. The error is
that of five fits, each judged on the fifth of the samples that it was not fitted on; the model is the fit on all.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palmette.errors import Fault, InputError
from palmette.spec.files import read_text
from palmette.spec.power import COUNTERS, PowerModel

FOLDS = 5
_EXPECTED = {True: "expected more than 0 W", False: "expected a number of 0 or more"}
Floats = NDArray[np.float64]


class Samples:
    """Counters and watts, a row a sample; ``names`` are the columns that can be used, ``left_out`` the others."""

    def __init__(self, columns: Mapping[str, Sequence[float]], watts: Sequence[float], meter: str) -> None:
        self.watts, self.meter = np.array(watts, dtype=np.float64), meter
        varying = [name for name in COUNTERS if name in columns and np.ptp(np.array(columns[name])) > 0]
        self.names = varying
        self.left_out = [name for name in COUNTERS if name not in varying]
        rows = [np.array(columns[name], dtype=np.float64) for name in varying]
        self.counters = np.stack(rows, axis=1) if rows else np.zeros((len(watts), 0))


def fit(samples: Samples, file: str = "") -> PowerModel:
    """The model of all samples, with its error on left-out ones.

    Raises:
        InputError: there are too few samples for so many counters.
    """
    needed = max(FOLDS, 2 * (len(samples.names) + 1))
    if len(samples.watts) < needed:
        expected = f"expected at least {needed}, for {len(samples.names)} counters"
        raise InputError(Fault("", f"{len(samples.watts)} samples", expected, file))
    intercept, weights = regression(samples.counters, samples.watts)
    return PowerModel(
        intercept_w=intercept,
        coefficients=dict(zip(samples.names, weights.tolist(), strict=True)),
        left_out=tuple(samples.left_out),
        mean_error=left_out_error(samples.counters, samples.watts),
        samples=len(samples.watts),
        meter=samples.meter,
    )


def regression(counters: Floats, watts: Floats) -> tuple[float, Floats]:
    """Ordinary least squares: the constant and a weight for each column."""
    middle, spread = counters.mean(axis=0), counters.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
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
    rows = [row for row in csv.DictReader(io.StringIO(read_text(path))) if any(row.values())]
    names = list(rows[0]) if rows else []
    if "power_w" not in names:
        raise InputError(Fault("header", ",".join(map(str, names)) or "nothing", "expected a column power_w", path))
    known = [name for name in COUNTERS if name in names and all(row[name] for row in rows)]
    if not known:
        raise InputError(Fault("header", ",".join(map(str, names)), f"expected one of {', '.join(COUNTERS)}", path))
    columns = {name: [_number(row[name] or "") for row in rows] for name in ["power_w", *known]}
    wrong = [
        Fault(f"line {line}, {name}", rows[line - 2][name] or "nothing", _EXPECTED[name == "power_w"], path)
        for name, values in columns.items()
        for line, value in enumerate(values, 2)
        if not 0 <= value < math.inf or (name == "power_w" and value == 0)
    ]
    if wrong:
        raise InputError(wrong)
    watts = columns.pop("power_w")
    meters = {row.get("meter") or "unknown" for row in rows}
    return Samples(columns, watts, ", ".join(sorted(meters)))


def _number(text: str) -> float:
    """The number, or none that is one."""
    try:
        return float(text)
    except ValueError:
        return math.nan
