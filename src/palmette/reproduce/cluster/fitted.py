"""The machines that come out where the claims of Gu et al. are fitted (``fit``), kept so that nobody has to wait.

By equations (2) to (4) the rates of all members add up. If the parameter server costs its device nothing, as the
factors of 1 say, then all three devices are the fastest cluster, and without its slowest member it keeps at least two
thirds of its rate: the best cluster leads the second best by a third of the time at most, not by 45.5%.
"""

from __future__ import annotations

from palmette.reproduce.cluster.claims import gain_claim
from palmette.reproduce.cluster.fit import BOUNDS, outcomes, problem
from palmette.reproduce.fitted import Fitted, describe, search
from palmette.reproduce.progress import Progress, Record

_FREE_SERVER = "the parameter server costs its device nothing"
PROVEN: dict[tuple[str, ...], str] = {
    (_FREE_SERVER, gain_claim("time")): (
        "rates add up by equation (4), so that two of three devices take at most a half longer than all, and the "
        "best leads by 33.3% at most; hence the unknown server: what multiplies a step of the device that has it"
    )
}
_FOUND = {
    "desktop_slower": 2.72443,
    "jtx2_slower": 1.68339,
    "jtx1_slower": 1.82866,
    "desktop_w": 100.952,
    "jtx2_w": 16.42,
    "jtx1_w": 15.7773,
    "server": 9.75003,
}
FITTED = Fitted(closest=_FOUND, values=_FOUND, given_up=(_FREE_SERVER,), contradictions=PROVEN)


def fits(again: bool, progress: Progress) -> Record:
    """The fitted machines and what the claims come to with them; searched ``again``, or as kept."""
    progress("Fitting the machines" if again else "Fitted machines")
    claims = list(outcomes({name: high for name, (_, high) in BOUNDS.items()}))
    return describe(search(problem(), claims, PROVEN, FITTED) if again else FITTED, outcomes)
