"""Which window is best for a loss: how many steps replicas should take before they average their weights.

Long windows send less, and learn less from the same samples. Only a learning curve says how much less, so windows are
weighed where there is a loss and a curve that knows them, and only as long as its runs have tried. Candidates are the
tree of the plan itself and forests of whole networks, each with the server where an epoch is cheapest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

from palmette.cost.batch_norm import small_parts
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import samples_by_instance
from palmette.errors import PalmetteError
from palmette.plan.core.choice import best, score
from palmette.plan.core.forest import forests, servers
from palmette.plan.core.make_plan import with_exchange
from palmette.plan.core.strategy import Task
from palmette.plan.core.until_loss import with_epochs_to_loss
from palmette.spec.goal import Spending
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase, Plan


def with_best_window(plan: Plan, task: Task, learning: Learning, rivals: Iterable[Callable[[], Plan]]) -> Plan:
    """The plan, or the best that trains apart until the goal's loss: one of its own strategy, or a rival's."""
    if learning.window_exponent is None:
        return plan
    found = [plan]
    for make in (*_makers(plan, task, learning), *rivals):
        try:
            found.append(make())
        except PalmetteError:
            continue
    costs = [_total(each) for each in found]
    scores = score(costs, task.goal)
    chosen = found[scores.index(min(scores))]
    if chosen is plan:
        return plan
    (phase,) = chosen.phases
    window = {"sync": phase.sync, "every": phase.every, "server": phase.server, "instead_s": costs[0].time_s}
    decision = {**plan.decision, "window": window}
    return plan.model_copy(update={"phases": chosen.phases, "estimate": chosen.estimate, "decision": decision})


def _total(plan: Plan) -> Spending:
    assert plan.estimate is not None, "only plans with a price are compared"
    return plan.estimate.spending("total") or Spending(math.inf, None)


def _makers(plan: Plan, task: Task, learning: Learning) -> Iterator[Callable[[], Plan]]:
    """Plans for each tree and each window, trained until the loss."""
    for phase in _trees(plan, task, learning):
        for steps in _lengths(learning):
            changed = plan.model_copy(update={"phases": (phase.model_copy(update={"every": steps}),)})
            yield partial(with_epochs_to_loss, changed, task, learning)


def _lengths(learning: Learning) -> list[int]:
    """Windows up to the longest that a run had, each twice as long as the one before."""
    longest = int(learning.fitted_on.get("window", (1.0, 1.0))[1])
    return sorted({2**power for power in range(1, longest.bit_length()) if 2**power <= longest} | {longest} - {1})


def _trees(plan: Plan, task: Task, learning: Learning) -> Iterator[Phase]:
    """The plan's own tree and forests as trees that train apart, each with its best server."""
    apart = {"sync": "every", "every": 2, "outer": learning.outer, "ahead": False, "batch_norm": "parts", "meet": None}
    apart |= {"overlap": False}
    found = [phase.model_copy(update=apart) for phase in plan.phases]
    with suppress(PalmetteError):
        found += forests(task, 2, learning.outer)
    for phase in found:
        if phase.replicas == 1 or small_parts(phase, task.evaluator.sizes(phase.pruning), samples_by_instance(phase)):
            continue
        candidates = [phase.model_copy(update={"server": node}) for node in servers(task)]
        try:
            yield with_exchange(best(candidates, task, Evaluator.mean_epoch).phase, task.exchange)
        except PalmetteError:
            continue
