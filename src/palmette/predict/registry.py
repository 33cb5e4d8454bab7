"""Predictors by name, as options have them; a new kind is one row of ``PREDICTORS``. Any other name is a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from palmette.errors import ArgumentFault, InputError, expected_name, nearest
from palmette.predict.bounds import BoundConstants, BoundedPredictor
from palmette.predict.examples import change_examples
from palmette.predict.forecast import Predictor
from palmette.predict.taught import TaughtPredictor
from palmette.spec.curves import load_curves
from palmette.spec.document import MOST

if TYPE_CHECKING:
    from palmette.predict.learned import LearnedPredictor


def _power_law() -> Predictor:
    from palmette.predict.power_law import PowerLawPredictor

    return PowerLawPredictor()


def _shipped() -> Predictor:
    from palmette.predict.learned import load_shipped_predictor

    return _as_far_as_taught(load_shipped_predictor())


def _as_far_as_taught(predictor: LearnedPredictor) -> Predictor:
    return TaughtPredictor(predictor, predictor.ranges, predictor.floor, predictor.constants)


PREDICTORS: dict[str, Callable[[], Predictor]] = {"shipped": _shipped, "power-law": _power_law}


def load_predictor(
    name: str, bound: float | None = None, *, bounds: bool = True, bounds_from: str | None = None
) -> Predictor:
    """The predictor of a name, or the one in a file.

    A learned one is trusted as far as it was taught (``taught``) and, with ``bounds``, as far as theory allows
    (``bounds``), by its own curves or by those of a file, ``bounds_from``, which bound any predictor. With a ``bound``,
    no epoch is expected to lower the loss by more than that.

    Raises:
        InputError: there is no such predictor or file, or the file holds none; the bound is below 0.
    """
    if bound is not None and not 0 <= bound <= MOST:
        raise InputError(ArgumentFault("bound", bound, f"expected a number from 0 to {MOST:g}"))
    if bounds_from is not None and not bounds:
        raise InputError(ArgumentFault("bounds_from", bounds_from, "without bounds it has no effect; expected them"))
    predictor = PREDICTORS[name]() if name in PREDICTORS else _from_file(name)
    floor = predictor.floor if isinstance(predictor, TaughtPredictor) else 0.0
    if bounds_from is not None:
        predictor = BoundedPredictor(predictor, *_constants_of(bounds_from, floor).bounds(floor))
    elif bounds and isinstance(predictor, TaughtPredictor):
        predictor = BoundedPredictor(predictor, *predictor.constants.bounds(predictor.floor))
    return predictor if bound is None else BoundedPredictor(predictor, run_bound=lambda _, epochs: [-bound] * epochs)


def _constants_of(path: str, floor: float) -> BoundConstants:
    """Those that the curves of a file tell.

    Raises:
        InputError: it has none.
    """
    curves = load_curves(path).curves
    return BoundConstants.of(curves, change_examples(curves), floor)


def _from_file(name: str) -> Predictor:
    if not Path(name).exists() and nearest(name, list(PREDICTORS)) is not None:
        raise InputError(ArgumentFault("predictor", name, expected_name(name, "predictor", list(PREDICTORS))))
    from palmette.predict.learned import load

    return _as_far_as_taught(load(name))
