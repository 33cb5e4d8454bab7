"""At which bandwidth of a link another strategy becomes better than the chosen plan.

The bandwidth, of both directions, is doubled and halved until a rival, planned again for it, beats the chosen plan,
priced again; then bisection closes in on where that begins. The threshold is rounded so that the statement stays true:
at the stated bandwidth, the rival is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from palmette.errors import PalmetteError
from palmette.plan.auto.objective import PlanObjective, with_bandwidth
from palmette.plan.auto.symmetry import equal_links
from palmette.plan.core.comparison import planned
from palmette.plan.core.registry import strategies
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Plan

MOST_LINKS = 8
_DOUBLINGS = 5
_CLOSE = 1.002
_AHEAD = 1 - 1e-6


@dataclass(frozen=True)
class LinkThreshold:
    """From this bandwidth on, up or down, a rival is better than the chosen plan."""

    between: tuple[str, str]
    direction: Literal["above", "below"]
    rates_bps: tuple[float, float]
    strategy: str
    alike: int
    """How many links are equal to this one, itself included."""

    def as_json(self) -> dict[str, Any]:
        """As it stands in a decision."""
        up, down = self.rates_bps
        rates = {"bandwidth_bps": up} if up == down else {"up_bps": up, "down_bps": down}
        kept = {name: value for name, value in asdict(self).items() if name != "rates_bps"}
        return kept | {"between": list(self.between)} | rates


def link_thresholds(plan: Plan, links: Sequence[int], objective: PlanObjective) -> list[LinkThreshold]:
    """Where the answer changes with the bandwidth of the first of several equal links, above and below what it is."""
    found = [_threshold(plan, links, objective, direction) for direction in ("above", "below")]
    return [threshold for threshold in found if threshold is not None]


def links_to_try(plan: Plan, task: Task) -> list[tuple[int, ...]]:
    """Equal links whose bandwidth is varied: in the order of the file, those at nodes of the plan first."""
    nodes = {name for phase in plan.phases for name in phase.nodes()}
    links = task.cluster.links
    return equal_links(task, sorted(range(len(links)), key=lambda k: nodes.isdisjoint(links[k].between)))[:MOST_LINKS]


def winner(plan: Plan, task: Task, objective: PlanObjective) -> str | None:
    """The best rival that beats the plan for this task; None where none does."""
    scores = {}
    for name in _quick_strategies():
        try:
            scores[name] = objective.of(planned(name, task, objective.options))
        except PalmetteError:
            continue
    best = min(scores, key=lambda name: scores[name], default=None)
    return best if best is not None and scores[best] < objective.on(plan, task) * _AHEAD else None


def _quick_strategies() -> list[str]:
    """Strategies that can be asked again for every bandwidth; equals in the order of the registry."""
    return [name for name, kind in strategies().items() if kind.plans_quickly]


def _threshold(
    plan: Plan, links: Sequence[int], objective: PlanObjective, direction: Literal["above", "below"]
) -> LinkThreshold | None:
    step, link = 2.0 if direction == "above" else 0.5, links[0]
    here = objective.task.cluster.links[link]
    near = far = 1.0
    for _ in range(_DOUBLINGS):
        near, far = far, far * step
        if min(here.rates_bps) * far < 1 or max(here.rates_bps) * far > 1e18:
            return None
        if winner(plan, with_bandwidth(objective.task, link, far), objective):
            break
    else:
        return None
    while max(near / far, far / near) > _CLOSE:
        middle = math.sqrt(near * far)
        if winner(plan, with_bandwidth(objective.task, link, middle), objective):
            far = middle
        else:
            near = middle
    first_bps, _ = here.rates_bps
    stated = _rounded(first_bps * far, up=direction == "above") / first_bps
    strategy = winner(plan, with_bandwidth(objective.task, link, stated), objective)
    rates_bps = here.scaled(stated).rates_bps
    return None if strategy is None else LinkThreshold(here.between, direction, rates_bps, strategy, len(links))


def _rounded(value: float, *, up: bool) -> float:
    """Three digits that count, rounded away from where the search came from."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    many = math.ceil(value / step) if up else math.floor(value / step)
    return float(f"{many * step:.3g}")
