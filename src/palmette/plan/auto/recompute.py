"""Which nodes recompute activations in a plan, what that saves and what it costs: a sentence."""

from __future__ import annotations

from palmette.plan.auto.objective import PlanObjective
from palmette.plan.core.recompute import recompute_price
from palmette.spec.plan import Phase, Plan
from palmette.spec.reading import energy, size, time


def describe_recompute(chosen: Plan, objective: PlanObjective) -> str:
    """The sentence; nothing where all activations are kept."""
    said = [_describe(phase, objective) for phase in chosen.phases]
    return " ".join(dict.fromkeys(sentence for sentence in said if sentence))


def _describe(phase: Phase, objective: PlanObjective) -> str:
    found = recompute_price(phase, objective.task).get("recompute")
    if found is None:
        return ""
    peaks, otherwise = found["peak_bytes"], found["otherwise_bytes"]
    saved = [f"{node}, {size(peaks[node])} instead of {size(otherwise[node])}" for node in peaks]
    joules = "" if found["added_j"] is None else f" and {energy(found['added_j'])}"
    added = f"that adds {time(found['added_s'])}{joules} to an iteration"
    return f"Activations are recomputed where memory would not hold them ({'; '.join(saved)}); {added}."
