"""The linear regression of equation (1): metered watts on counters, and its error on samples it has not seen.

Each counter is scaled by its range before the least squares, so that hertz and shares of 1 weigh the same; a counter
that does not vary adds nothing to the constant and is left out, as is one that a machine does not have. The error is
that of a five-fold cross validation; the model is the fit on all samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler

from palmette.errors import Fault, InputError
from palmette.measure.csv_table import Row, read_csv
from palmette.spec.power import COUNTERS, PowerModel

FOLDS = 5
WATTS = "power_w"
MIN_RANGE = 1e-14  # a counter that varies by less is constant, as scikit-learn has it
MAX_VALUE = 1e18  # so that squares and quotients stay finite
Floats = NDArray[np.float64]


class PowerSamples:
    """Counters and watts, one row per sample; ``names`` are the columns that can be used, ``left_out`` the others."""

    def __init__(self, columns: Mapping[str, Sequence[float]], watts: Sequence[float], meter: str) -> None:
        self.watts, self.meter = np.array(watts, dtype=np.float64), meter
        varying = [name for name in COUNTERS if len(watts) and name in columns and np.ptp(columns[name]) > MIN_RANGE]
        self.names = varying
        self.left_out = [name for name in COUNTERS if name not in varying]
        rows = [np.array(columns[name], dtype=np.float64) for name in varying]
        self.counters = np.stack(rows, axis=1) if rows else np.zeros((len(watts), 0))


def fit_power_model(samples: PowerSamples, file: str = "") -> PowerModel:
    """The model fitted on all samples, with its cross-validation error.

    Raises:
        InputError: there are too few samples for so many counters, too many equal ones, or no model fits.
    """
    needed = max(FOLDS, 2 * (len(samples.names) + 1))
    if len(samples.watts) < needed:
        expected = f"expected at least {needed}, for {len(samples.names)} counters"
        raise InputError(Fault("", f"{len(samples.watts)} samples", expected, file))
    different = len(np.unique(samples.counters, axis=0))
    if different <= len(samples.names):
        expected = f"expected at least {len(samples.names) + 1}, for {len(samples.names)} counters"
        raise InputError(Fault("", f"{different} samples with different counters", expected, file))
    error = cross_validation_error(samples.counters, samples.watts)
    if not error <= MAX_VALUE:
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
    """Ordinary least squares: the intercept and a weight for each column."""
    model = _model().fit(_with_constant(counters), watts)
    scaler, linear = (step for _, step in model.steps)
    weights: Floats = (linear.coef_ * scaler.scale_)[1:]
    return float(model.predict(_with_constant(np.zeros((1, counters.shape[1]))))[0]), weights


def cross_validation_error(counters: Floats, watts: Floats) -> float:
    """Mean |predicted − metered| / metered over samples that a fit has not seen."""
    folds = KFold(FOLDS, shuffle=True, random_state=0)
    predicted = cross_val_predict(_model(), _with_constant(counters), watts, cv=folds)
    return float(np.mean(np.abs(predicted - watts) / watts))


def _model() -> Pipeline:
    return make_pipeline(MinMaxScaler(), LinearRegression())


def _with_constant(counters: Floats) -> Floats:
    """The counters after a constant column, as scikit-learn refuses to fit no column at all."""
    return np.column_stack([np.ones(len(counters)), counters])


def load_samples(path: str) -> PowerSamples:
    """Samples from a CSV with a column ``power_w`` and any of the counters; ``meter`` names where watts come from.

    A column with an empty cell counts as one that the machine does not have.

    Raises:
        InputError: it cannot be read, has no watts or no counter, or a cell is no number; names line and column.
    """
    header, rows = read_csv(path)
    known = _known_columns(header, rows, path)
    wrong = [
        Fault(f"line {row.line}", f"{len(row.cells)} cells", f"expected {len(header)}, one per column", path)
        for row in rows
        if len(row.cells) != len(header)
    ]
    columns = {} if wrong else {name: [_number(row.cells[header.index(name)]) for row in rows] for name in known}
    wrong += [
        Fault(f"line {row.line}, {name}", row.cells[header.index(name)] or "nothing", expected, path)
        for name, values in columns.items()
        for row, value in zip(rows, values, strict=True)
        if (expected := _violated(name, value))
    ]
    if wrong:
        raise InputError(wrong)
    meters = {row.cells[header.index("meter")] for row in rows} - {""} if "meter" in header else set()
    return PowerSamples(columns, columns.pop(WATTS), ", ".join(sorted(meters)) or "unknown")


def _known_columns(header: list[str], rows: list[Row], path: str) -> list[str]:
    """Watts, and the counters whose columns have no empty cell.

    Raises:
        InputError: there is none of either, or one occurs twice.
    """

    def fault(value: str, expected: str) -> InputError:
        return InputError(Fault("header", value or "nothing", expected, path))

    if WATTS not in header:
        raise fault(",".join(header), f"expected a column {WATTS}")
    if twice := [name for name in (WATTS, "meter", *COUNTERS) if header.count(name) > 1]:
        raise fault(twice[0], "occurs twice; expected it once")
    at = {name: header.index(name) for name in COUNTERS if name in header}
    known = [name for name, k in at.items() if all(k >= len(row.cells) or row.cells[k] for row in rows)]
    if not known:
        raise fault(",".join(header), f"expected one of {', '.join(COUNTERS)}")
    return [WATTS, *known]


def _violated(name: str, value: float) -> str | None:
    """The expectation that a value violates, if any."""
    if value > MAX_VALUE:
        return f"expected at most {MAX_VALUE:g}"
    if name == WATTS:
        return None if value > 0 else "expected more than 0 W"
    return None if value >= 0 else "expected a number of 0 or more"


def _number(text: str) -> float:
    """The number, or NaN."""
    try:
        return float(text)
    except ValueError:
        return math.nan
