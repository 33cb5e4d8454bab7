"""What RightTrain's paper claims of Fig. 3, beside what came out here; where the two differ, why."""

from __future__ import annotations

from palmette.reproduce.progress import Record


def claims(made: Record) -> list[Record]:
    """Each claim: the figure, what the paper says, what came out, whether they agree, and why not."""
    found = [
        _saving(made),
        _saving_when_tight(made),
        _close(made),
        _never_worse(made),
        _unchanged(made),
        _shorter(made),
        _data(made),
    ]
    return [row if row["agrees"] else row | {"why": _WHY[row["key"]]} for row in found]


_PROVEN_GAP = 0.05
"""A plan so close to its lower bound counts as the optimum."""
_WHY = {
    "tight saving": "here RightTrain saves much even at split learning's own time: power grows with the cube of a "
    "CPU's share, and split learning runs every CPU at full speed while most of them wait for the slowest",
    "saving": "it depends on the machines' idle power, which the paper does not give",
    "tight": "at these deadlines RightTrain's search ends with another tree than the optimum's",
    "no optimum": "with four sources, each with its own amount of data, the search for the optimum does not end within "
    "its effort; `gap` is its distance to a lower bound",
    "never worse": "its search ended before it found a plan as good",
    "unchanged": "looser deadlines let split learning in three use another split",
    "shorter": "RightTrain's best plan here is quicker than it has to be: idle power makes waiting cost more than slow "
    "CPUs save",
    "data": "an iteration costs the same whatever the data, so that less data pays only where a source can be left out",
}


def _points(made: Record, name: str) -> list[Record]:
    found: list[Record] = made["figures"]["3 energy"]["points"][name]
    return found


def _claim(key: str, claim: str, paper: str, ours: str, agrees: bool) -> Record:
    return {"figure": "3", "key": key, "claim": claim, "paper": paper, "ours": ours, "agrees": agrees}


def _is_known(point: Record) -> bool:
    return not point["failed"]


def _is_proven(point: Record) -> bool:
    """Whether the search for the optimum ended close to its lower bound."""
    return _is_known(point) and (point.get("gap") or 0.0) <= _PROVEN_GAP


def _ratios(made: Record, name: str, other: str) -> list[float]:
    """Energy of one over that of another, at deadlines that both meet."""
    pairs = zip(_points(made, name), _points(made, other), strict=True)
    return [a["total_j"] / b["total_j"] for a, b in pairs if not a["failed"] and not b["failed"]]


def _saving(made: Record) -> Record:
    ours = 1 - _ratios(made, "righttrain", "split-learning")[-1]
    result = f"{ours:.0%} less"
    return _claim("saving", "at loose deadlines, energy against split learning", "over 50% less", result, ours >= 0.5)


def _saving_when_tight(made: Record) -> Record:
    ours = 1 - _ratios(made, "righttrain", "split-learning")[0]
    claim = "at the tightest deadline, energy against split learning"
    return _claim("tight saving", claim, "slightly less", f"{ours:.0%} less", 0 <= ours <= 0.2)


def _close(made: Record) -> Record:
    optima = _points(made, "righttrain-optimum")
    pairs = zip(_points(made, "righttrain"), optima, strict=True)
    ratios, many = [a["total_j"] / b["total_j"] for a, b in pairs if _is_known(a) and _is_proven(b)], len(optima)
    if not ratios:
        return _claim("no optimum", "energy against the optimum", "close", "not known", False)
    worst = max(ratios) - 1
    result = f"{worst:.1%} above at most, at the {len(ratios)} of {many} deadlines for which the optimum was found"
    agrees = worst <= 0.05 and len(ratios) == many
    return _claim("no optimum" if worst <= 0.05 else "tight", "energy against the optimum", "close", result, agrees)


def _never_worse(made: Record) -> Record:
    worst = max(_ratios(made, "righttrain", "split-learning"))
    result = f"at most {worst:.2f} of it"
    return _claim("never worse", "energy against split learning, at any deadline", "less", result, worst <= 1)


def _unchanged(made: Record) -> Record:
    energies = [point["total_j"] for point in _points(made, "split-learning") if not point["failed"]]
    spread = max(energies) / min(energies) - 1
    return _claim("unchanged", "split learning's energy as deadlines grow", "unchanged", f"{spread:.1%}", spread < 0.01)


def _shorter(made: Record) -> Record:
    ours, theirs = (_points(made, name)[-1] for name in ("righttrain", "split-learning"))
    result = f"{theirs['total_s'] / ours['total_s']:.2f} of RightTrain's"
    return _claim(
        "shorter",
        "at loose deadlines, split learning's time",
        "shorter than RightTrain's",
        result,
        theirs["total_s"] < ours["total_s"],
    )


def _data(made: Record) -> Record:
    first, last = _points(made, "righttrain")[0], _points(made, "righttrain")[-1]
    result = (
        f"{first['data_fraction']:.2f} to {last['data_fraction']:.2f} in {first['epochs']} to {last['epochs']} epochs"
    )
    agrees = last["data_fraction"] < first["data_fraction"] and last["epochs"] > first["epochs"]
    return _claim("data", "RightTrain's data and epochs as deadlines grow", "less data, more epochs", result, agrees)
