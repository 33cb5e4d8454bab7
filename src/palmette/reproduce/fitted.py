"""Machines fitted to a paper's claims, and what they say about each claim.

A search takes minutes (``inverse``), so the machines that it found are kept beside each paper's claims; what every
claim comes to with them is computed anew each time. A claim that differs with the catalogue's machines is *reproduced
with fitted machines* where it is among those that hold together with them; else it *cannot be true beside the others*,
and the contradictions say why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from palmette.reproduce.inverse import InverseProblem, Outcomes, Values
from palmette.reproduce.progress import Record

REPRODUCED, CONTRADICTORY = "reproduced with fitted machines", "cannot all be true"
SEARCHED = "no machines were found with which all of these hold; without any one of them there are"


class Fitted(NamedTuple):
    """The unknowns that come closest to all claims, and those with which all but the ``given_up`` hold."""

    closest: Values
    values: Values
    given_up: tuple[str, ...]
    contradictions: Mapping[tuple[str, ...], str]
    """Sets of claims that exclude each other, and why."""


def search(
    problem: InverseProblem, claims: Sequence[str], proven: Mapping[tuple[str, ...], str], known: Fitted
) -> Fitted:
    """Fit the unknowns to the claims anew, from ``known`` machines, too; ``proven`` contradictions have a proof."""
    for values in (known.closest, known.values):
        problem.start_from(values)
    closest = problem.fit(claims)
    found = problem.consistent(claims, list(proven))
    contradictions = {each: proven.get(each, SEARCHED) for each in found.contradictions}
    return Fitted(closest, found.values, found.given_up, contradictions)


def describe(fitted: Fitted, outcomes: Callable[[Values], Outcomes]) -> Record:
    """The fit as a record: what each claim comes to with both sets of machines, and how far that is off."""
    closest, kept = outcomes(fitted.closest), outcomes(fitted.values)
    return {
        "closest": fitted.closest,
        "values": fitted.values,
        "claims": [
            {
                "claim": claim,
                "closest": closest[claim].ours,
                "closest_residual": closest[claim].residual,
                "ours": each.ours,
                "residual": each.residual,
                "given_up": claim in fitted.given_up,
            }
            for claim, each in kept.items()
        ],
        "contradictions": [{"claims": list(each), "why": why} for each, why in fitted.contradictions.items()],
    }


def with_verdicts(rows: Sequence[Record], fits: Sequence[Record]) -> list[Record]:
    """The claims, those that differ with what the fits say about them: ``fitted``, and why if it cannot be."""
    return [row if row["agrees"] else row | _verdict(row, fits) for row in rows]


def _verdict(row: Record, fits: Sequence[Record]) -> Record:
    about = [(fit, each) for fit in fits for each in fit["claims"] if each["claim"] == row["claim"]]
    if not about:
        return {}
    if all(not each["residual"] for _, each in about):
        return {"fitted": REPRODUCED, "fitted_ours": "; ".join(dict.fromkeys(str(each["ours"]) for _, each in about))}
    why = [each for fit, _ in about for each in fit["contradictions"] if row["claim"] in each["claims"]]
    others = [[claim for claim in each["claims"] if claim != row["claim"]] for each in why]
    named = [f"beside “{'”, “'.join(each)}”: {one['why']}" for one, each in zip(why, others, strict=True)]
    return {"fitted": CONTRADICTORY, "contradiction": "; ".join(named)}
