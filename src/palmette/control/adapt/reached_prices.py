"""What iterations of plans and changes between them take at the rates that links reach, each found once."""

from __future__ import annotations

import math

from palmette.control.adapt.link_history import Slower, with_measured_bandwidth
from palmette.cost.evaluate import Evaluator
from palmette.cost.handover import change_price
from palmette.cost.prices import NodePrice
from palmette.spec.goal import Spending
from palmette.spec.plan import Plan

_ALIKE = 1.05
"""Rates this close are priced as one."""
_MOST_KEPT = 1000

Cell = tuple[tuple[int, int], ...]
"""Rates that are about the same, by resource."""


def cell_of(slower: Slower, step: float) -> Cell:
    """About which rates these are; nothing where all are as declared."""
    numbers = tuple((resource, round(math.log(factor, step))) for resource, factor in sorted(slower.items()))
    return numbers if any(number for _, number in numbers) else ()


class ReachedPrices:
    """The prices of a cluster whose links are so many times slower than it says."""

    def __init__(self, declared: Evaluator) -> None:
        self._declared, self._known = declared, dict[Cell, RatePrices]()

    def at(self, reached: Slower) -> RatePrices:
        """Those at about these rates."""
        cell, declared = cell_of(reached, _ALIKE), self._declared
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        if cell not in self._known:
            slower = {resource: _ALIKE**number for resource, number in cell}
            cluster = with_measured_bandwidth(declared.cluster, slower)
            prices = Evaluator(declared.profile, cluster, declared.optimizer, declared.exchange)
            self._known[cell] = RatePrices(prices)
        return self._known[cell]


class RatePrices:
    """What plans and changes between them take at some rates of the links."""

    def __init__(self, prices: Evaluator) -> None:
        self._prices = prices
        self._spent: dict[int, tuple[Plan, Spending]] = {}
        self._moves: dict[tuple[int, int], tuple[Plan, Plan, Spending]] = {}

    def spent(self, plan: Plan) -> Spending:
        """An iteration of a plan."""
        if id(plan) not in self._spent:
            price = self._prices.price(plan.phases[0])
            self._spent[id(plan)] = plan, self._prices.spending(price.nodes, price.iteration_s)
        return self._spent[id(plan)][1]

    def change(self, old: Plan, new: Plan, pause_s: float) -> Spending:
        """From one plan to another: a pause, in which all nodes wait, and moving the model."""
        key, before = (id(old), id(new)), old.phases[0]
        if key not in self._moves:
            self._moves[key] = old, new, change_price(before, new.phases[0], self._prices)
        waiting = self._prices.spending({name: NodePrice() for name in before.nodes()}, pause_s)
        return self._moves[key][2].plus(waiting)
