"""What a plan's samples take to reach its nodes, and how it compares with uploading first: sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palmette.cost.delivery import sending_sources
from palmette.errors import Infeasible, PalmetteError
from palmette.plan.auto.horizon import BestFrom
from palmette.plan.auto.objective import PlanObjective, found_by_search
from palmette.spec.plan import Plan
from palmette.spec.reading import size, time

_SAME = 0.0005
UPLOAD = "upload"


def describe_samples(chosen: Plan, objective: PlanObjective) -> str:
    """How many bytes of samples travel, and how often; nothing where none do."""
    phase = chosen.phases[0]
    prices, travel = objective.task.evaluator, {"once": 0.0, "each": 0.0}
    batches = sum(prices.epoch_samples(phase).values()) / phase.batch
    for k in sending_sources(phase):
        source = phase.sources[k]
        sample_bytes = prices.sizes(phase.pruning).sample_bytes(source.node, phase.input_as)
        travel[source.delivery] += batches * source.samples * sample_bytes
    said = []
    if travel["once"]:
        said.append(
            f"{size(travel['once'])} of samples travel once{', while it trains' if phase.ahead else ''}, and are kept"
        )
    if travel["each"]:
        said.append(
            f"{size(travel['each'])} of samples travel in every epoch{' ahead of their use' if phase.ahead else ''}"
        )
    return f"{'; '.join(said)}." if said else ""


def compare_with_upload(
    chosen: Plan, others: Sequence[Plan], skipped: Mapping[str, PalmetteError], objective: PlanObjective
) -> str:
    """How much better the plan is than uploading first, or that this is the answer."""
    if isinstance(skipped.get(UPLOAD), Infeasible):
        return f"Uploading first is not possible: {skipped[UPLOAD]}."
    upload = next((plan for plan in others if plan.strategy == UPLOAD), None)
    if upload is None or not upload.decision["upload_s"]:
        return ""
    own, theirs, node = objective.of(chosen), objective.of(upload), upload.decision["node"]
    if theirs <= own * (1 + _SAME):
        return f"Uploading first to {node} is the answer: nothing is better than that."
    if not own:
        return ""
    if objective.task.goal.single == "time":
        return f"It is {theirs / own:.3g} times as fast as uploading first to {node}."
    return f"Uploading first to {node} comes to {theirs / own:.3g} times as much."


def compare_ways_to_begin(chosen: Plan, others: Sequence[Plan]) -> str:
    """Training on the way against upload first, where samples travel."""
    ways = next((plan.decision.get("on_the_way") for plan in found_by_search(others)), None)
    if ways is None or not sending_sources(chosen.phases[0]) or ways["factor"] <= 1 + _SAME:
        return ""
    wins = next(way for way in ways["ways"] if way["way"] == ways["wins"])
    loses = next(way for way in ways["ways"] if way is not wins)
    epochs = "1 epoch" if ways["epochs"] == 1 else f"{ways['epochs']} epochs"
    return f"Of the whole network on one node, over {epochs}, {_way(wins)} beats {_way(loses)}."


def _way(way: Mapping[str, Any]) -> str:
    return f"{_BEGINS[way['way']]} ({way['node']}, {time(way['total_s'])})"


_BEGINS = {"on the way": "training while samples arrive", "upload first": "uploading first"}


def describe_horizon(ranges: Sequence[BestFrom], objective: PlanObjective) -> str:
    """For how many epochs the answer is given where nobody said, and where it changes."""
    if objective.task.epochs is not None or not ranges:
        return ""
    asked = f"The number of epochs is not given (--epochs), so {objective.task.horizon} count"
    if len(ranges) == 1:
        return f"{asked}; of these plans, {ranges[0].strategy} is best for any number."
    first, *later = ranges
    ends = [each.epochs - 1 for each in later]
    parts = [f"up to {ends[0]}, {first.strategy} is best"]
    parts += [f"from {each.epochs} to {end}, {each.strategy}" for each, end in zip(later, ends[1:], strict=False)]
    return f"{asked}: {'; '.join([*parts, f'from {later[-1].epochs} on, {later[-1].strategy}'])}."
