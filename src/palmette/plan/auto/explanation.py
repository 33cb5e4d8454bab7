"""Why a plan wins and what would change the answer, in a paragraph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, assert_never

from palmette.cost.warnings import warnings_of
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
from palmette.plan.auto.varying import describe_varying
from palmette.spec.goal import Quantity, Spending
from palmette.spec.plan import Plan
from palmette.spec.reading import carbon, energy, money, rates, time

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
    said += [_of_the_loss(chosen, objective)]
    said += [_node(each, chosen, objective) for each in found.without]
    said += [_threshold(each) for each in found.thresholds]
    said += [describe_varying(chosen, objective, found.thresholds)]
    if not found.thresholds and objective.task.cluster.links:
        links = "any link" if len(objective.task.cluster.links) <= MOST_LINKS else "any link that was tried"
        said.append(
            f"Doubling or halving the bandwidth of {links} up to five times keeps it ahead of simpler strategies."
        )
    return " ".join(sentence for sentence in said if sentence)


def _of_the_loss(chosen: Plan, objective: PlanObjective) -> str:
    """What a learning curve had to say of the plan, which its price alone does not show."""
    usual = warnings_of(chosen, objective.task.evaluator)
    told = [each for each in estimate_of(chosen).warnings if each not in usual]
    return f"Of the loss: {'; '.join(told)}." if told else ""


def _wins(chosen: Plan, objective: PlanObjective) -> str:
    estimate = estimate_of(chosen)
    hosts = list(dict.fromkeys(instance.node for phase in chosen.phases for instance in phase.instances))
    where = f"computing on {_list(hosts)}"
    iteration, total = estimate.spending("iteration"), estimate.spending("total")
    assert iteration is not None, "an estimate knows the time of an iteration"
    whole = "" if total is None else f"; the whole training takes {_spent(total, estimate.currency)}"
    took = f"an iteration takes {_spent(iteration, estimate.currency)}"
    return f"{chosen.strategy} is best for {objective.task.goal}, {where}: {took}{whole}."


def _spent(spent: Spending, currency: str | None) -> str:
    """All that is known of what is spent."""
    parts = [time(spent.time_s), *([] if spent.energy_j is None else [energy(spent.energy_j)])]
    parts += [] if spent.cost is None else [money(spent.cost, currency)]
    return _list(parts + ([] if spent.carbon_g is None else [carbon(spent.carbon_g)]))


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
        case "cost":
            return "money"
        case "carbon":
            return "carbon"
        case None:
            return "in this sum"
    assert_never(single)


def _node(each: PlanWithout, chosen: Plan, objective: PlanObjective) -> str:
    if each.plan is None:
        return f"{_all_of(each.nodes)} cannot be spared: {each.reason}."
    here, there, currency = objective.mean(chosen), objective.mean(each.plan), objective.task.cluster.currency
    faster = (there.time_s - here.time_s) / there.time_s if there.time_s else 0.0
    parts = []
    if abs(faster) >= _SAME:
        parts.append(("saves" if faster > 0 else "costs", f"{_percent(abs(faster))} of the time"))
    parts += _saved(here.energy_j, there.energy_j, energy)
    parts += _saved(here.cost, there.cost, lambda amount: money(amount, currency))
    parts += _saved(here.carbon_g, there.carbon_g, carbon)
    if not parts:
        return f"{_sentence(describe_equal(each.nodes))} makes no difference."
    saved = f"{parts[0][0]} {parts[0][1]}"
    for verb, amount in parts[1:]:
        saved += f" and {amount}" if verb == parts[0][0] else f" and {verb} {amount}"
    return f"{_sentence(describe_equal(each.nodes))} {saved} per iteration."


def _saved(
    here: float | None, there: float | None, text: Callable[[float], str]
) -> Iterator[tuple[Literal["saves", "costs"], str]]:
    """How much less of something a plan takes than another, or more, where both are known and differ."""
    if here is not None and there is not None and abs(there - here) > _SAME * max(here, there):
        yield ("saves" if there > here else "costs"), text(abs(there - here))


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
