"""Why a plan wins and what would change the answer, in a paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, assert_never

from palmette.errors import PalmetteError
from palmette.plan.auto.delivery import (
    compare_ways_to_begin,
    compare_with_upload,
    describe_horizon,
    describe_samples,
)
from palmette.plan.auto.horizon import BestFrom
from palmette.plan.auto.links import MOST_LINKS, LinkThreshold
from palmette.plan.auto.nodes import PlanWithout
from palmette.plan.auto.objective import PlanObjective, estimate_of
from palmette.plan.auto.recompute import describe_recompute
from palmette.plan.auto.symmetry import describe_equal
from palmette.spec.goal import Quantity
from palmette.spec.plan import Plan
from palmette.spec.reading import energy, rates, time

_SAME = 0.0005


class Findings(NamedTuple):
    """What was found out about a plan."""

    thresholds: Sequence[LinkThreshold]
    without: Sequence[PlanWithout]
    ranges: Sequence[BestFrom]
    skipped: Mapping[str, PalmetteError]
    """Why strategies have no plan to compare with."""


def explain(chosen: Plan, others: Sequence[Plan], objective: PlanObjective, found: Findings) -> str:
    """The paragraph; ``others`` are the plans that were compared, best first."""
    said = [_wins(chosen, objective), describe_recompute(chosen, objective), describe_samples(chosen, objective)]
    said += [_ahead(chosen, others, objective), compare_with_upload(chosen, others, found.skipped, objective)]
    said += [compare_ways_to_begin(chosen, others), describe_horizon(found.ranges, objective)]
    said += [_node(each, chosen, objective) for each in found.without]
    said += [_threshold(each) for each in found.thresholds]
    if not found.thresholds and objective.task.cluster.links:
        links = "any link" if len(objective.task.cluster.links) <= MOST_LINKS else "any link that was tried"
        said.append(
            f"Doubling or halving the bandwidth of {links} up to five times keeps it ahead of simpler strategies."
        )
    return " ".join(sentence for sentence in said if sentence)


def _wins(chosen: Plan, objective: PlanObjective) -> str:
    estimate = estimate_of(chosen)
    hosts = list(dict.fromkeys(instance.node for phase in chosen.phases for instance in phase.instances))
    where = f"computing on {_list(hosts)}"
    joules = "" if estimate.iteration_j is None else f" and {energy(estimate.iteration_j)}"
    whole = ""
    if estimate.total_s is not None:
        spent = "" if estimate.total_j is None else f" and {energy(estimate.total_j)}"
        whole = f"; the whole training takes {time(estimate.total_s)}{spent}"
    took = f"an iteration takes {time(estimate.iteration_s)}{joules}"
    return f"{chosen.strategy} is best for {objective.task.goal}, {where}: {took}{whole}."


def _ahead(chosen: Plan, others: Sequence[Plan], objective: PlanObjective) -> str:
    """How far the next one is behind, among plans that are not as good."""
    own = objective.of(chosen)
    rivals = [plan for plan in others if plan.strategy != chosen.strategy]
    equals = [plan.strategy for plan in rivals if objective.of(plan) <= own * (1 + _SAME)]
    behind = [plan for plan in rivals if objective.of(plan) > own * (1 + _SAME)]
    same = f"{_list(equals)} {'comes' if len(equals) == 1 else 'come'} to the same." if equals else ""
    if not behind or not own:
        return same
    ratio = objective.of(behind[0]) / own
    more = f"{ratio - 1:.0%} more" if ratio < 2 else f"{ratio:.3g} times as much"
    return f"{same} {behind[0].strategy} needs {more} {_quantity(objective.task.goal.single)}.".strip()


def _quantity(single: Quantity | None) -> str:
    """What there is more of."""
    match single:
        case "time" | "energy" | "power":
            return single
        case "edp":
            return "energy × time"
        case None:
            return "in this sum"
    assert_never(single)


def _node(each: PlanWithout, chosen: Plan, objective: PlanObjective) -> str:
    if each.plan is None:
        return f"{_all_of(each.nodes)} cannot be spared: {each.reason}."
    (here_s, here_j), (there_s, there_j) = objective.mean(chosen), objective.mean(each.plan)
    faster = (there_s - here_s) / there_s if there_s else 0.0
    parts = []
    if abs(faster) >= _SAME:
        parts.append(("saves" if faster > 0 else "costs", f"{_percent(abs(faster))} of the time"))
    if here_j is not None and there_j is not None:
        joules = there_j - here_j
        if abs(joules) > _SAME * max(here_j, there_j):
            parts.append(("saves" if joules > 0 else "costs", energy(abs(joules))))
    if not parts:
        return f"{_sentence(describe_equal(each.nodes))} makes no difference."
    saved = f"{parts[0][0]} {parts[0][1]}"
    for verb, amount in parts[1:]:
        saved += f" and {amount}" if verb == parts[0][0] else f" and {verb} {amount}"
    return f"{_sentence(describe_equal(each.nodes))} {saved} per iteration."


def _threshold(each: LinkThreshold) -> str:
    ends = f"between {each.between[0]} and {each.between[1]}"
    ends += f" (or on another of {each.alike} equal links)" if each.alike > 1 else ""
    word = "From" if each.direction == "above" else "At"
    limit = f"{rates(*each.rates_bps)} {'on' if each.direction == 'above' else 'and less'}"
    return f"{word} {limit} {ends}, {each.strategy} becomes better than this plan."


def _all_of(names: Sequence[str]) -> str:
    """Nodes of which the same holds: their names, or how many there are."""
    return _list(names) if len(names) <= 3 else f"{len(names)} nodes ({names[0]}, {names[1]}, …)"


def _sentence(text: str) -> str:
    """A text as a sentence begins, unless it is a node's name."""
    return text.replace("any one", "Any one", 1) if text.startswith("any one of ") else text


def _percent(part: float) -> str:
    return f"{part:.0%}" if part >= 0.095 else f"{part:.1%}"


def _list(names: Sequence[str]) -> str:
    shown = [*names[:5], f"{len(names) - 5} more"] if len(names) > 6 else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
