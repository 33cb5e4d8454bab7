"""Whether a change to another plan pays for itself: what it would have saved so far, against what the change takes.

Every iteration shows what the links reached. The plan in use and those that may take its place are priced at that: in
the same time another plan would have done so many iterations more, each worth what one typically takes.
(Seconds of one iteration would not do: they tell of an outage as if it lasted longer for plans that send more.)
The *lead* of another plan is what it would have gained in the latest iterations, and is never less than 0 (Page's test,
1954). As much is expected to come: a spell lasts about as long again as it has lasted, at most until the training ends.
A plan takes over when that pays twice for the change to it and back, as in ski rental: a spell shorter than that
changes nothing, a lasting one costs a few changes more than with foresight, and every change was earned before it is
made, so that plans do not flap. No single iteration counts for more than half: one outage is no reason, two slow
iterations can be. Where changes have lost more than a hundredth of the training, by the same reckoning against the plan
that it began with, a lead has to be five times as long, unless it leads back to that plan.

    lead ▲        ╱ pays: change
         │   ╱╲  ╱
         └──╱──╲╱──────▶ iterations

The other plans are those of the same strategy for what links reach now, and in the mean of all that was seen. Where
time is not the goal, more iterations for the same joules count as more in the same time.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from palmette.control.adapt.link_history import LinkHistory, Slower, with_measured_bandwidth
from palmette.control.adapt.reached_prices import ReachedPrices, cell_of
from palmette.control.adapt.replanning import replan_for
from palmette.cost.evaluate import Evaluator
from palmette.errors import RunError
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Quantity, Spending, parse_weights, value
from palmette.spec.plan import Plan

PAUSE_S = 2.0
"""What a change takes beside moving the model, before one was measured. Planning goes on beside the training."""
THERE_AND_BACK = 2.0
TWICE = 2.0
"""How often a change there and back has to be earned: once is too eager for links that vary as mobile ones do."""
_DECLARED = 5
"""Iterations that the cluster's own rates count for."""
_LATEST = 50
"""Iterations that tell how long a typical one takes."""
_ALLOWED = 0.01
"""What changes may lose, of the time of the training."""
_BEYOND = 5.0
_MOST_AT_ONCE = 0.5
"""What a single iteration may pay of a change."""
_ADDS_UP: frozenset[Quantity] = frozenset({"time", "energy", "cost", "carbon"})

Planner = Callable[[Plan, Cluster, str], Plan]
REASON = "the bandwidth of a link has changed"


class PlanSwitching:
    """Hears of every iteration, and says when to go on with another plan.

    ``threshold``: the fraction by which bandwidths have to differ for another plan to be made; ``planner`` makes it.
    ``pause_s``: what a change takes beside moving the model.
    """

    def __init__(self, plan: Plan, prices: Evaluator, *, threshold: float, planner: Planner = replan_for) -> None:
        self._declared, self._planner, self._prices = prices, planner, ReachedPrices(prices)
        weights: Mapping[Quantity, float] = parse_weights(plan.asked.goal) if plan.asked else {"time": 1.0}
        self._weights = {quantity: weight / sum(weights.values()) for quantity, weight in weights.items()}
        self._step = (1 + threshold) ** 2  # within the threshold of the middle
        self.plan, self._first = plan, plan
        self._plans, self._planned_for = [plan], {cell_of({}, self._step)}
        self._leads: dict[int, _Lead] = {}
        self._now = self._prices.at({})
        declared_s = self._now.spent(plan).time_s
        self._took_s = deque([declared_s] * _DECLARED, maxlen=_LATEST)
        self._history = LinkHistory(1 + threshold, _DECLARED * declared_s)
        self._iterations: int | None = None
        self.pause_s, self.now_s, self._done, self._gained_s = PAUSE_S, 0.0, 0, 0.0

    def expect(self, iterations: int) -> None:
        """So many iterations are left of the training."""
        self._iterations = self._done + iterations

    def observe(self, slower: Slower, now_s: float) -> None:
        """What an iteration that has ended now shows of the links that it used."""
        self._took_s.append(now_s - self.now_s)
        self.now_s, self._done = now_s, self._done + 1
        self._history.observe(slower, now_s)
        for reached in (self._history.recent, self._history.mean):
            self._plan_for(reached)
        self._now = self._prices.at(self._history.believed(now_s))
        self._gained_s -= self._gain_s(self._first)
        others = [(number, plan) for number, plan in enumerate(self._plans) if plan is not self.plan]
        for number, plan in others:
            paid = self._gain_s(plan) / self._needed_s(plan)
            self._leads[number] = self._leads.get(number, _Lead()).after(paid)

    def __call__(self) -> Plan | None:
        """The plan to go on with, where the change to it pays; it counts as the one in use from then on."""
        paid = {number: self._to_come(lead) for number, lead in self._leads.items()}
        ahead = max(paid, key=lambda number: paid[number], default=None)
        if ahead is None or paid[ahead] < self._limit(self._plans[ahead]):
            return None
        found = self._plans[ahead]
        self._gained_s -= self._needed_s(found) / (TWICE * THERE_AND_BACK)
        self.plan, self._leads = found, {}
        return found

    @property
    def _typical_s(self) -> float:
        """An iteration of the latest ones, and of a few that are as declared; one outage does not count."""
        return statistics.median(self._took_s)

    def _to_come(self, lead: _Lead) -> float:
        """What is expected to be paid: as much as was, or in proportion where fewer iterations are left."""
        if self._iterations is None or lead.iterations == 0:
            return lead.paid
        return lead.paid * min(1.0, max(0, self._iterations - self._done) / lead.iterations)

    def _limit(self, plan: Plan) -> float:
        """What a lead has to be, in what is needed."""
        allowed_s = _ALLOWED * self._typical_s * (self._iterations or self._done)
        return 1.0 if plan is self._first or self._gained_s >= -allowed_s else _BEYOND

    def _plan_for(self, reached: Slower) -> None:
        """Have a plan for rates about like these, if there is one."""
        cell = cell_of(reached, self._step)
        if cell in self._planned_for:
            return
        self._planned_for.add(cell)
        try:
            made = self._planner(self.plan, with_measured_bandwidth(self._declared.cluster, reached), REASON)
        except RunError:
            return
        if all(made.phases != known.phases for known in self._plans):
            self._plans.append(made)

    def _gain_s(self, plan: Plan) -> float:
        """What a plan would have done beyond one iteration, in seconds of a typical one."""
        old, new = self._now.spent(self.plan), self._now.spent(plan)
        more = [weight * (_times(value(q, *old), value(q, *new)) - 1) for q, weight in self._weights.items()]
        return self._typical_s * sum(more)

    def _needed_s(self, plan: Plan) -> float:
        """What has to be earned for a change to a plan, in the same seconds."""
        change, spent = self._now.change(self.plan, plan, self.pause_s), self._now.spent(self.plan)
        parts = [weight * _change_s(q, change, spent) for q, weight in self._weights.items()]
        return TWICE * THERE_AND_BACK * sum(parts)


class _Lead(NamedTuple):
    """What the latest iterations would have paid of what a change needs, and how many these are."""

    paid: float = 0.0
    iterations: int = 0

    def after(self, paid: float) -> _Lead:
        """One more iteration."""
        total = self.paid + min(paid, _MOST_AT_ONCE)
        return _Lead(total, self.iterations + 1) if total > 0 else _Lead()


def _times(old: float, new: float) -> float:
    """How often the new fits into the old; either may be unknown or nothing."""
    if old == new:
        return 1.0
    if math.isinf(new):
        return 0.0
    return old / new if new else math.inf


def _change_s(quantity: Quantity, change: Spending, spent: Spending) -> float:
    """What a change takes of a quantity, as seconds in which the plan in use takes as much."""
    if quantity not in _ADDS_UP:
        return change.time_s
    return spent.time_s * _times(value(quantity, *change), value(quantity, *spent))
