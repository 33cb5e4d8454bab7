"""Whether a change to another plan pays for itself: what it would have saved so far, against what the change takes.

Every iteration shows what the links reached. The plan in use and those that may take its place are priced at that; the
*lead* of another plan is what it would have saved in the latest iterations, each time over what the change to it and
back takes, and is never less than 0 (Page's test, 1954). A plan takes over when that is 1, as in ski rental: a spell
shorter than that changes nothing, a lasting one costs about twice what it would with foresight, and every change was
earned before it is made, so that plans do not flap. No single iteration counts for more than half: one outage is no
reason.
What changes may cost is a hundredth of the time, and half of what they have saved by the same reckoning against the
plan that the run began with; beyond that a lead has to be five times as long.

    lead ▲        ╱ pays: change
         │   ╱╲  ╱
         └──╱──╲╱──────▶ iterations

The other plans are those of the same strategy for what links reach now, and in the mean of all that was seen. What is
saved counts in seconds; where time is not the goal, a share of an iteration that is saved counts as that of its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from palmette.control.adapt.link_history import LinkHistory, Slower, with_measured_bandwidth
from palmette.control.adapt.replanning import replan_for
from palmette.cost.evaluate import Evaluator
from palmette.cost.handover import change_price
from palmette.cost.prices import NodePrice
from palmette.errors import RunError
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Quantity, Spending, parse_weights, value
from palmette.spec.plan import Plan

PAUSE_S = 2.0
"""What a change takes beside moving the model: stopping, and starting again. Planning goes on beside the training."""
THERE_AND_BACK = 2.0
_ALLOWED = 0.01
"""What changes may cost, of the time of the run."""
_SPENDABLE = 0.5
"""What they may cost of what they have saved: that is an estimate."""
_BEYOND = 5.0
_MOST_AT_ONCE = 0.5
"""What a single iteration may pay of a change."""
_ALIKE = 1.05
"""Rates this close are priced as one."""
_ADDS_UP: frozenset[Quantity] = frozenset({"time", "energy", "cost", "carbon"})

Cell = tuple[tuple[int, int], ...]
"""Rates that are about the same, by resource."""
Planner = Callable[[Plan, Cluster, str], Plan]
REASON = "the bandwidth of a link has changed"


class PlanSwitching:
    """Hears of every iteration, and says when to go on with another plan.

    ``threshold``: the fraction by which bandwidths have to differ for another plan to be made; ``planner`` makes it.
    """

    def __init__(self, plan: Plan, prices: Evaluator, *, threshold: float, planner: Planner = replan_for) -> None:
        self._prices, self._planner = prices, planner
        weights: Mapping[Quantity, float] = parse_weights(plan.asked.goal) if plan.asked else {"time": 1.0}
        self._weights = {quantity: weight / sum(weights.values()) for quantity, weight in weights.items()}
        self._step = (1 + threshold) ** 2  # within the threshold of the middle
        self.plan, self._plans = plan, {_cell({}, self._step): plan}
        self._leads: dict[Cell, float] = {}
        self._history = LinkHistory(1 + threshold)
        self._first, self._allowed_s = plan, 0.0
        self.now_s, self._now = 0.0, _Prices(prices)
        self._priced: dict[Cell, _Prices] = {}

    def observe(self, slower: Slower, now_s: float) -> None:
        """What an iteration that has ended now shows of the links that it used."""
        self.now_s = now_s
        self._history.observe(slower, now_s)
        for reached in (self._history.recent, self._history.mean):
            self._plan_for(reached)
        prices = self._prices_at(self._history.believed(now_s))
        spent = prices.spent(self.plan)
        saved_s = self._saved_s(prices.spent(self._first), spent)
        self._allowed_s += _ALLOWED * spent.time_s + saved_s * (_SPENDABLE if saved_s > 0 else 1.0)
        for cell, plan in self._plans.items():
            paid = self._saved_s(spent, prices.spent(plan)) / self._needed_s(prices, plan)
            self._leads[cell] = max(0.0, self._leads.get(cell, 0.0) + min(paid, _MOST_AT_ONCE))
        self._now = prices

    def __call__(self) -> Plan | None:
        """The plan to go on with, where the change to it pays; it counts as the one in use from then on."""
        ahead = max(self._leads, key=lambda cell: self._leads[cell], default=None)
        if ahead is None or self._plans[ahead].phases == self.plan.phases:
            return None
        change_s = self._needed_s(self._now, self._plans[ahead]) / THERE_AND_BACK
        if self._leads[ahead] < (1.0 if change_s <= self._allowed_s else _BEYOND):
            return None
        self._allowed_s -= change_s
        self.plan, self._leads = self._plans[ahead], {}
        return self.plan

    def _plan_for(self, reached: Slower) -> None:
        """Have a plan for rates about like these, if there is one."""
        cell = _cell(reached, self._step)
        if cell in self._plans:
            return
        try:
            made = self._planner(self.plan, with_measured_bandwidth(self._prices.cluster, reached), REASON)
        except RunError:
            made = self.plan
        self._plans[cell] = made

    def _prices_at(self, reached: Slower) -> _Prices:
        cell = _cell(reached, _ALIKE)
        if cell not in self._priced:
            known = self._prices
            cluster = with_measured_bandwidth(known.cluster, {resource: _ALIKE**number for resource, number in cell})
            self._priced[cell] = _Prices(Evaluator(known.profile, cluster, known.optimizer, known.exchange))
        return self._priced[cell]

    def _saved_s(self, old: Spending, new: Spending) -> float:
        """Seconds of an iteration, or of as large a share of it as the goal's quantities are less."""
        shares = [weight * (1 - _over(value(q, *new), value(q, *old))) for q, weight in self._weights.items()]
        return old.time_s * sum(shares)

    def _needed_s(self, prices: _Prices, plan: Plan) -> float:
        """What a change to a plan and back takes, in the same seconds."""
        change, spent = prices.change(self.plan, plan), prices.spent(self.plan)
        parts = [
            weight * (spent.time_s * _over(value(q, *change), value(q, *spent)) if q in _ADDS_UP else change.time_s)
            for q, weight in self._weights.items()
        ]
        return THERE_AND_BACK * sum(parts)


class _Prices:
    """What plans and changes between them take at some rates of the links; each is found once."""

    def __init__(self, prices: Evaluator) -> None:
        self._prices = prices
        self._spent: dict[int, tuple[Plan, Spending]] = {}
        self._changes: dict[tuple[int, int], Spending] = {}

    def spent(self, plan: Plan) -> Spending:
        """An iteration of a plan."""
        if id(plan) not in self._spent:
            price = self._prices.price(plan.phases[0])
            self._spent[id(plan)] = plan, self._prices.spending(price.nodes, price.iteration_s)
        return self._spent[id(plan)][1]

    def change(self, old: Plan, new: Plan) -> Spending:
        """From one plan to another: a pause, in which all nodes wait, and moving the model."""
        key = id(old), id(new)
        if key not in self._changes:
            before, after = old.phases[0], new.phases[0]
            waiting = self._prices.spending({name: NodePrice() for name in before.nodes()}, PAUSE_S)
            self._changes[key] = change_price(before, after, self._prices).plus(waiting)
        return self._changes[key]


def _over(part: float, whole: float) -> float:
    """A quotient; 1 where both are unknown or nothing."""
    if math.isinf(whole) or not whole:
        return 1.0 if part == whole else math.inf
    return part / whole


def _cell(slower: Slower, step: float) -> Cell:
    """About which rates these are; nothing where all are as declared."""
    numbers = tuple((resource, round(math.log(factor, step))) for resource, factor in sorted(slower.items()))
    return numbers if any(number for _, number in numbers) else ()
