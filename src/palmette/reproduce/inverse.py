"""Which unknowns would make a paper's claims true, all at once: an inverse problem.

A claim's residual at some unknowns is 0 where it holds, else how far it is off. Residuals are searched over the
logarithms of the unknowns: a Sobol sequence over their bounds, then differential evolution and Nelder and Mead's
simplex from the best points found so far, for the least sum of squares. Seeds are fixed, so that the same problem has
the same answer.

    fit            the unknowns that come closest to a set of claims
    contradiction  a minimal set of claims that cannot be true together: without any one of them the others can
    consistent     the fewest claims to give up, such that all others hold

That no unknowns make a set of claims true is what the search found, no proof; where there is a proof, the paper's own
module states it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import hypot
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Values = dict[str, float]
_POPULATION, _SIMPLEX = 4, 20  # points of the search for each unknown
_ROUNDS = 2  # the second begins with the best of the first


class Outcome(NamedTuple):
    """What a claim comes to at some unknowns, and how far that is off; 0 where the claim holds."""

    ours: float | str
    residual: float


class Consistent(NamedTuple):
    """The claims that were given up, the unknowns at which all others hold, and the contradictions that forced it."""

    given_up: tuple[str, ...]
    values: Values
    contradictions: tuple[tuple[str, ...], ...]


Outcomes = dict[str, Outcome]


class InverseProblem:
    """Unknowns with bounds, and the claims' outcomes at any values of them; remembers all that was tried."""

    def __init__(
        self,
        bounds: Mapping[str, tuple[float, float]],
        outcomes: Callable[[Values], Outcomes],
        samples: int = 256,
        generations: int = 12,
    ) -> None:
        self._bounds, self._outcomes = dict(bounds), outcomes
        self._samples, self._generations = samples, generations
        self._tried: dict[tuple[float, ...], Outcomes] = {}
        self._sampled = False

    def start_from(self, values: Values) -> None:
        """Try these values, too: a search ends no farther from the claims than they are."""
        self.at(np.log10(np.array([values[name] for name in self._bounds])))

    def at(self, point: Floats) -> Outcomes:
        """The outcomes at the logarithms of some unknowns."""
        key = tuple(np.round(point, 6).tolist())
        if key not in self._tried:
            self._tried[key] = self._outcomes(self._values(key))
        return self._tried[key]

    def fit(self, claims: Sequence[str]) -> Values:
        """The values with the least squares of the residuals of these claims."""
        from scipy.optimize import differential_evolution, minimize

        def off(point: Floats) -> float:
            return _off(self.at(point), claims)

        limits = list(zip(*self._ranges(), strict=True))
        simplex = {"maxfev": _SIMPLEX * len(limits), "xatol": 1e-6, "fatol": 1e-9}
        for _ in range(_ROUNDS):
            if off(self._best(claims)[0]) > 0:
                differential_evolution(
                    off,
                    limits,
                    init=self._best(claims),
                    maxiter=self._generations,
                    polish=False,
                    seed=0,
                    callback=lambda point, *_, **__: off(point) == 0,
                )
            if off(self._best(claims)[0]) > 0:
                minimize(off, self._best(claims)[0], method="Nelder-Mead", bounds=limits, options=simplex)
        return self._values(self._best(claims)[0].tolist())

    def holds(self, claims: Sequence[str]) -> bool:
        """Whether some values make all these claims true, as far as the search can find."""
        self.fit(claims)
        return self._least_off(claims) == 0

    def contradiction(self, claims: Sequence[str]) -> tuple[str, ...] | None:
        """A minimal set of these claims that cannot be true together; None where all can."""
        if self.holds(claims):
            return None
        left = list(claims)
        for claim in claims:
            without = [each for each in left if each != claim]
            if not self.holds(without):
                left = without
        return tuple(left) if self._least_off(claims) > 0 else None  # the search for a part may have found the whole

    def consistent(self, claims: Sequence[str], proven: Sequence[tuple[str, ...]] = ()) -> Consistent:
        """The fewest claims to give up: every contradiction loses one, the first found of the smallest choices.

        ``proven`` are contradictions that need no search.
        """
        contradictions = list(proven)
        choices: list[tuple[str, ...]] = [()]
        while True:
            given_up = choices.pop(0)
            left = [claim for claim in claims if claim not in given_up]
            known = (each for each in contradictions if not set(each) & set(given_up))
            found = next(known, None) or self.contradiction(left)
            if found is None:
                return Consistent(given_up, self.fit(left), tuple(contradictions))
            if found not in contradictions:
                contradictions.append(found)
            choices += [(*given_up, claim) for claim in found]

    def _least_off(self, claims: Sequence[str]) -> float:
        return _off(self.at(self._best(claims)[0]), claims)

    def _best(self, claims: Sequence[str]) -> Floats:
        """The logarithms that came closest to these claims so far."""
        if not self._sampled:
            from scipy.stats import qmc

            self._sampled = True
            for point in qmc.scale(qmc.Sobol(len(self._bounds), seed=0).random(self._samples), *self._ranges()):
                self.at(point)
        ranked = sorted(self._tried, key=lambda point: (_off(self._tried[point], claims), point))
        return np.array(ranked[: _POPULATION * len(self._bounds)])

    def _ranges(self) -> tuple[Floats, Floats]:
        low, high = np.log10(np.array(list(self._bounds.values()))).T
        return low, high

    def _values(self, logarithms: Sequence[float]) -> Values:
        return {name: float(10**each) for name, each in zip(self._bounds, logarithms, strict=True)}


def _off(outcomes: Outcomes, claims: Sequence[str]) -> float:
    return hypot(*(outcomes[claim].residual for claim in claims))
