"""Training over a trace on the event clock: iteration after iteration, each from the moment at which the last ended.

With re-planning, what every iteration would write into its trace goes to the code that watches the links of a real run
(``control.adapt``), and a change that this asks for takes the time of moving the model over the link as it is then, and
a pause.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.replanning.worlds import World
from palmette.control.adapt.drift import LinkSpeeds
from palmette.control.adapt.switching import PAUSE_S, PlanSwitching
from palmette.cost.estimate import transfers
from palmette.cost.evaluate import Evaluator
from palmette.cost.handover import change_price
from palmette.cost.prices import NodePrice, Price
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Spending
from palmette.spec.plan import Phase, Plan

THRESHOLD = 0.5
NOTHING = Spending(0.0, 0.0)


class Clock:
    """The world's link, from any moment on."""

    def __init__(self, world: World) -> None:
        self._prices = Evaluator(world.profile, world.cluster)

    def price(self, phase: Phase, moment_s: float) -> Price:
        """An iteration that begins then."""
        self._prices.moment_s = moment_s
        return self._prices.price(phase)

    def spent(self, price: Price) -> Spending:
        """What an iteration takes."""
        return self._prices.spending(price.nodes, price.iteration_s)

    def change(self, before: Phase, after: Phase, moment_s: float) -> Spending:
        """A pause and moving the model, beginning then."""
        waiting = self._prices.spending({name: NodePrice() for name in before.nodes()}, PAUSE_S)
        self._prices.moment_s = moment_s + PAUSE_S
        return change_price(before, after, self._prices).plus(waiting)


class Driven(NamedTuple):
    """What a training took, and how often its plan changed."""

    spent: Spending
    changes: int
    plans: int


def fixed(world: World, phase: Phase, iterations: int) -> Driven:
    """One plan from the first iteration to the last."""
    clock, spent = Clock(world), NOTHING
    for _ in range(iterations):
        spent = spent.plus(clock.spent(clock.price(phase, spent.time_s)))
    return Driven(spent, 0, 1)


def replanned(world: World, plan: Plan, iterations: int, made: dict[Any, Plan]) -> Driven:
    """Plans as the links change; ``made`` are those that were made before for the same rates."""
    clock, believed = Clock(world), Evaluator(world.profile, world.cluster)
    planner = _Planner(world, made)
    switching = PlanSwitching(plan, believed, threshold=THRESHOLD, planner=planner)
    switching.expect(iterations)
    speeds, spent, changes = LinkSpeeds(plan.phases[0], believed), NOTHING, 0
    for number in range(iterations):
        price = clock.price(plan.phases[0], spent.time_s)
        speeds.hear(_lines(price, number, spent.time_s))
        spent = spent.plus(clock.spent(price))
        speeds.hear([{"iteration": number + 1, "op": "begun", "end_s": spent.time_s}])
        for observed in speeds():
            switching.observe(observed.slower, spent.time_s)
        found = switching()
        if found is not None:
            spent = spent.plus(clock.change(plan.phases[0], found.phases[0], spent.time_s))
            plan, speeds, changes = found, LinkSpeeds(found.phases[0], believed), changes + 1
    return Driven(spent, changes, planner.asked)


class _Planner:
    """The world's planner, which remembers."""

    def __init__(self, world: World, made: dict[Any, Plan]) -> None:
        self._world, self._made, self.asked = world, made, 0

    def __call__(self, plan: Plan, cluster: Cluster, reason: str) -> Plan:
        self.asked += 1
        key = tuple(round(rate) for link in cluster.links for rate in link.rates_bps)
        if key not in self._made:
            self._made[key] = self._world.plan(cluster)
        return self._made[key]


def _lines(price: Price, iteration: int, moment_s: float) -> list[dict[str, Any]]:
    """What the iteration would write into a run's trace."""
    end_s = moment_s + price.iteration_s
    lines: list[dict[str, Any]] = [{"iteration": iteration, "op": "update", "end_s": end_s}]
    for each in transfers(price):
        ends = {"start_s": moment_s + each.start_s, "end_s": moment_s + each.end_s, "bytes": each.size_bytes}
        lines.append({"iteration": iteration, "op": "receive", "node": each.receiver, "instance": each.instance} | ends)
    return lines
