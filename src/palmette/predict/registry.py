"""A predictor by its name, as options have it."""

from __future__ import annotations

from palmette.errors import Fault, InputError
from palmette.predict.bounds import Bounded
from palmette.predict.forecast import Predictor
from palmette.predict.power_law import PowerLawPredictor
from palmette.spec.document import MOST


def predictor_of(name: str, bound: float | None = None) -> Predictor:
    """The predictor of a name: the one that ships, a power law, or one in a file.

    With a ``bound``, no epoch is trusted to lower the loss by more than that.

    Raises:
        InputError: there is no such file, or it holds no predictor; the bound is below 0.
    """
    if bound is not None and not 0 <= bound <= MOST:
        raise InputError(Fault("--bound", bound, f"expected a number from 0 to {MOST:g}"))
    known = _known_predictor(name)
    return known if bound is None else Bounded(known, run_bound=lambda _, epochs: [-bound] * epochs)


def _known_predictor(name: str) -> Predictor:
    if name == "power-law":
        return PowerLawPredictor()
    from palmette.predict.learned import load, shipped

    return shipped() if name == "shipped" else load(name)
