"""What PACT's paper claims about schedules, beside what came out here; where the two differ, why."""

from __future__ import annotations

from statistics import fmean

from palmette.reproduce.progress import Record


def schedule_claims(figures: Record) -> list[Record]:
    """Each claim about Figs. 6 to 9: what the paper says, what came out, whether they agree, and why not."""
    return [
        _close_to_the_optimum(figures["6"]),
        *(_at_or_below(figures["6"], rival) for rival in ("static-learn", "one-switch")),
        _same_switches(figures["6"]),
        _several_models(figures["7"]),
        *_resolution(figures["8"]),
        *_bias(figures["9"]),
    ]


def _claim(figure: str, claim: str, values: tuple[str, str], agrees: bool, why: str) -> Record:
    """A row of the table; ``values`` are the paper's and ours."""
    paper, ours = values
    row = {"figure": figure, "claim": claim, "paper": paper, "ours": ours, "agrees": agrees}
    return row if agrees else row | {"why": why}


def _ratio(figure: Record, ours: str, theirs: str) -> float:
    """The mean over the targets of one's energy relative to the other's, where both have a schedule."""
    both = zip(figure["series"][ours], figure["series"][theirs], strict=True)
    return fmean(a / b for a, b in both if a is not None and b is not None)


def _close_to_the_optimum(figure: Record) -> Record:
    ratio = _ratio(figure, "pact", "pact-optimum")
    return _claim(
        "6",
        "PACT's energy beside the optimum's",
        ("almost the same", f"{ratio - 1:.1%} more on average"),
        ratio < 1.03,
        "predictions are off by more here than the paper's seem to be",
    )


def _at_or_below(figure: Record, rival: str) -> Record:
    ratio = _ratio(figure, "pact", rival)
    ours = f"{1 - ratio:.1%} less on average" if ratio <= 1 else f"{ratio - 1:.1%} more on average"
    return _claim(
        "6",
        f"PACT's energy beside that of {rival}",
        ("less", ours),
        ratio <= 1,
        f"{rival} knows what will happen, PACT does not",
    )


def _switches(plan: Record | None) -> list[int]:
    """After how many epochs a schedule changes; it starts with L."""
    if plan is None:
        return []
    lengths = [stage["epochs"] for stage in plan["schedule"]]
    at_once = [0] if plan["schedule"] and plan["schedule"][0]["model"] != "L" else []
    return at_once + [sum(lengths[: k + 1]) for k in range(len(lengths) - 1)]


def _same_switches(figure: Record) -> Record:
    ours, theirs = (_switches(figure["at_lowest"][name]) for name in ("pact", "pact-optimum"))
    near = len(ours) == len(theirs) and all(abs(a - b) <= 3 for a, b in zip(ours, theirs, strict=True))
    result = f"after {_listed(ours)} epochs, the optimum after {_listed(theirs)}"
    return _claim(
        "6",
        "PACT switches when the optimum does",
        ("almost", result),
        near,
        "around the optimum schedules that switch otherwise cost nearly the same",
    )


def _listed(epochs: list[int]) -> str:
    return " and ".join(map(str, epochs)) or "no"


def _several_models(figure: Record) -> Record:
    spent = figure["targets"]["0.15"]
    models = [model for model, joules in spent["pact"].items() if joules]
    rival = spent["static-learn"]
    more = rival is not None and spent["pact"]["L"] > rival["L"]
    static = "has no schedule" if rival is None else f"{rival['L']:.3g} J on L"
    return _claim(
        "7",
        "at the lowest target PACT spends more on L than StaticLearn",
        ("more", f"{spent['pact']['L']:.3g} J on L, with {', '.join(models)} in use; StaticLearn {static}"),
        more,
        "smaller models learn more for a joule here than in the paper's scenario",
    )


def _resolution(figure: Record) -> list[Record]:
    names = [name for name in figure["series"] if name.startswith("γ")]
    means = [fmean(each for each in figure["series"][name] if each is not None) for name in names]
    firsts = [_switches(figure["at_lowest"][name])[:1] for name in names]
    result = ", ".join(f"{name}: {mean:.3g} J" for name, mean in zip(names, means, strict=True))
    epochs = ", ".join(f"{name}: {_listed(first)}" for name, first in zip(names, firsts, strict=True))
    later = all(firsts) and [first[0] for first in firsts] == sorted(first[0] for first in firsts)
    return [
        _claim("8", "a coarser γ costs energy", ("a little", result), means == sorted(means), "rounding hit by chance"),
        _claim("8", "a coarser γ makes the first switch later", ("later", epochs), later, "rounding hit by chance"),
    ]


def _bias(figure: Record) -> list[Record]:
    names = [name for name in figure["series"] if name.startswith("bias")]
    means = {name: fmean(each for each in figure["series"][name] if each is not None) for name in names}
    least = means["bias +0%"]
    result = ", ".join(f"{name}: {mean / least - 1:+.1%}" for name, mean in means.items() if name != "bias +0%")
    low, high = means[names[0]] / least, means[names[-1]] / least
    firsts = {name: _switches(figure["at_lowest"][name])[:1] or [0] for name in names}
    under, over = firsts[names[0]][0], firsts[names[-1]][0]
    return [
        _claim(
            "9",
            "a bias costs about the same in both directions",
            ("similar", result),
            abs(low - high) < 0.02,
            "a model that is overrated is used for long before the losses seen tell",
        ),
        _claim(
            "9",
            "underrating L leads to a later switch, overrating to an earlier one",
            ("later, earlier", f"after {under} epochs when underrated, {over} when overrated"),
            under > over,
            "the least energy is sought by what every model promises from now on, and one that promises less is left "
            "sooner. The paper's only reason is rounding up (Fig. 8), which lowers what all models promise",
        ),
    ]
