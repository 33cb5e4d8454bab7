"""What came out of a search: the plan's phase and variables, or why there is none."""

from __future__ import annotations

from typing import Any

from palmette.errors import Infeasible, too_late
from palmette.plan.core.choice import best
from palmette.plan.core.strategy import Decision
from palmette.plan.righttrain.cpu_allocation import Allocator, Found
from palmette.plan.righttrain.epochs import MOST_EPOCHS
from palmette.plan.righttrain.problem import Ground
from palmette.plan.righttrain.search import Outcome, Search
from palmette.plan.righttrain.symmetry import different_trees
from palmette.plan.rivals.whole import on_one_node
from palmette.spec.plan import Phase


def refuse_loss(ground: Ground) -> None:
    """Refuse a loss that no training reaches.

    Raises:
        Infeasible: the loss is not above the floor of the curve, or beyond any number of epochs.
    """
    target = ground.target
    learning, loss = target.learning, target.loss
    if loss <= learning.floor:
        told = f"the floor of the learning curve is {learning.floor:g}; expected a loss above it"
        raise Infeasible(f"--loss: {loss:g}: cannot be met; {told}")
    feeds = len(ground.feed_nodes) if learning.replica_exponent < 0 else 1
    if target.schedule_of(target.samples, feeds) is None:
        least = learning.loss(MOST_EPOCHS, 1.0, feeds)
        told = f"the least that can be had in {MOST_EPOCHS:g} epochs with all data is {least:.6g}"
        raise Infeasible(f"--loss: {loss:g}: cannot be met; {told}")


def decision(search: Search, outcome: Outcome) -> Decision:
    """The plan that was found.

    Raises:
        Infeasible: none was; says what could be had.
    """
    if outcome.found is None:
        raise _nothing(search)
    made = decided(search.allocator, outcome.found)
    total_j = made.variables["total_j"]
    bound_j = min(outcome.bound_j, total_j)
    gap = {"lower_bound_j": bound_j, "gap": 1 - bound_j / total_j if total_j else 0.0}
    return Decision(made.phases, made.variables | gap | {"prices": search.allocator.priced})


def decided(allocator: Allocator, found: Found) -> Decision:
    """A plan with its variables; all values are the evaluator's."""
    ground, epochs = allocator.ground, found.candidate.schedule.epochs
    phase = allocator.phase(found.candidate, found.shares.tolist())
    phase = Phase.model_validate(phase.model_dump())
    price = ground.task.evaluator.price(phase)
    assert price.epoch_j is not None, "the ground refuses unknown powers"
    data: dict[str, int] = {}
    for source in phase.sources:
        data[source.node] = data.get(source.node, 0) + (source.epoch_samples or 0)
    variables: dict[str, Any] = {
        "epochs": epochs,
        "data_fraction": sum(data.values()) / ground.target.samples,
        "epoch_s": price.epoch_s,
        "total_s": epochs * price.epoch_s,
        "total_j": epochs * price.epoch_j,
        "mapping": {instance.id: instance.node for instance in phase.instances},
        "cpu": {instance.id: instance.cpu_share for instance in phase.instances},
        "data": data,
    }
    return Decision((phase,), variables)


def _nothing(search: Search) -> Infeasible:
    """Why nothing was found: too slow, too much energy for a node, or nothing may run at all."""
    quick = search.quickest().search(different_trees(search.ground))
    if quick is None:
        return _forbidden(search.ground)
    if search.allocator.late(quick):
        return late(search.ground, quick)
    over = search.allocator.over_limits(quick)
    return Infeasible(f"no plan obeys all limits in time; of the quickest: {over[0]}" if over else "no plan was found")


def late(ground: Ground, quick: Found) -> Infeasible:
    """That the quickest plan is too slow, with its time, and the loss that could be had in time."""
    goal, schedule = ground.task.goal, quick.candidate.schedule
    if goal.deadline_s is None or quick.total_s <= goal.deadline_s:
        return too_late("--iteration-deadline", goal.iteration_deadline_s or 0.0, quick.total_s / schedule.iterations)
    tree, target = quick.candidate.tree, ground.target
    samples = sum(ground.feed_samples[feed] for feed in tree.feeds)
    iterations = int(goal.deadline_s / (quick.total_s / schedule.iterations))
    least = f"the least that can be had is {quick.total_s:.6g} s for a loss of {target.loss:g}"
    if iterations:
        least += f", or a loss of {target.least_loss(iterations, tree.replicas, samples):.6g} in time"
    return Infeasible(f"--deadline: {goal.deadline_s:g} s: cannot be met; {least}", quick.total_s)


def _forbidden(ground: Ground) -> Infeasible:
    """What stands against the simplest plans: everything on one node."""
    best([on_one_node(node, ground.task) for node in ground.names], ground.task)
    return Infeasible("no tree may run: private data, memory or missing paths forbid each")
