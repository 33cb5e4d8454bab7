"""The decision of a search: the plan's phase and variables, or why there is none."""

from __future__ import annotations

from typing import Any

from palmette.errors import ArgumentFault, Infeasible, not_below, too_late
from palmette.plan.core.choice import best
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.strategy import Decision
from palmette.plan.righttrain.closest import nearest_to_limits, soonest_allowed
from palmette.plan.righttrain.cpu_allocation import CpuAllocator, EvaluatedPlan
from palmette.plan.righttrain.epochs import MAX_EPOCHS
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.search import RightTrainSearch, SearchResult
from palmette.plan.righttrain.symmetry import distinct_trees
from palmette.spec.plan import Phase


def check_loss(problem: RightTrainProblem) -> None:
    """Check that training can reach the loss.

    Raises:
        Infeasible: the loss is not above the floor of the curve, or out of reach of any number of epochs.
    """
    target = problem.target
    learning, loss = target.learning, target.loss
    if loss <= learning.least_loss:
        floor = f"the floor of the learning curve is {learning.least_loss:g}; expected a loss above it"
        raise Infeasible(ArgumentFault("loss", f"{loss:g}", f"cannot be met; {floor}"))
    feeds = len(problem.feed_nodes) if learning.replica_exponent < 0 else 1
    if target.schedule_for(target.samples, feeds) is None:
        least = learning.loss(MAX_EPOCHS, 1.0, feeds)
        reached = f"the least that can be had in {MAX_EPOCHS:g} epochs with all data is {not_below(least)}"
        raise Infeasible(ArgumentFault("loss", f"{loss:g}", f"cannot be met; {reached}"))


def bounded_decision(search: RightTrainSearch, result: SearchResult) -> Decision:
    """The decision of a search, with its lower bound and gap.

    Raises:
        Infeasible: no plan was found; states what is possible.
    """
    if result.other is not None:
        decided = phase_decision(search.problem, result.other.phase)
    elif result.plan is not None:
        decided = plan_decision(search.allocator, result.plan)
    else:
        raise _explain_infeasible(search)
    total_j = decided.variables["total_j"]
    bound_j = min(result.bound_j, total_j)
    gap: dict[str, Any] = {"lower_bound_j": bound_j, "gap": 1 - bound_j / total_j if total_j else 0.0}
    if result.other is not None:
        gap["from"] = result.other.strategy
    return Decision(decided.phases, decided.variables | gap | {"prices": search.allocator.evaluations})


def plan_decision(allocator: CpuAllocator, found: EvaluatedPlan) -> Decision:
    """The decision of a plan."""
    return phase_decision(allocator.problem, allocator.phase(found.candidate, found.shares.tolist()))


def phase_decision(problem: RightTrainProblem, phase: Phase) -> Decision:
    """The decision of a phase; all values are the evaluator's."""
    phase, epochs = Phase.model_validate(phase.model_dump()), phase.epochs or 1
    price = problem.task.evaluator.price(phase)
    assert price.epoch.energy_j is not None, "build_problem refuses unknown powers"
    data: dict[str, int] = {}
    for source in phase.sources:
        data[source.node] = data.get(source.node, 0) + (source.epoch_samples or 0)
    learning = problem.target.learning
    fraction = learning.fraction(data, _owned(problem))
    variables: dict[str, Any] = {
        "epochs": epochs,
        "data_fraction": fraction,
        "epoch_s": price.epoch.time_s,
        "total_s": epochs * price.epoch.time_s,
        "total_j": epochs * price.epoch.energy_j,
        "mapping": {instance.id: instance.node for instance in phase.instances},
        "cpu": {instance.id: instance.cpu_share for instance in phase.instances},
        "data": data,
    }
    beyond = learning.beyond(epochs=epochs, data=fraction, replicas=phase.replicas, batch=phase.batch)
    variables |= {"beyond": beyond} if beyond else {}
    told = {
        "margin": learning.counted_on(problem.target.loss),
        "learning_rate": learning.told_of_schedule(problem.task.schedule),
    }
    return Decision((phase,), variables | {name: each for name, each in told.items() if each is not None})


def _owned(problem: RightTrainProblem) -> dict[str, int]:
    """The samples that each source owns."""
    nodes = problem.task.cluster.nodes.items()
    return {name: node.source.samples for name, node in nodes if node.source is not None}


def _explain_infeasible(search: RightTrainSearch) -> Infeasible:
    """Why no plan was found: too slow, over a node's energy limit, or nothing is allowed at all."""
    fastest_plan = search.min_time_search().search(distinct_trees(search.problem))
    if fastest_plan is None:
        return _explain_forbidden(search.problem)
    if search.allocator.over_limits(fastest_plan):
        return _explain_limits(search, fastest_plan)
    if search.allocator.misses_deadline(fastest_plan):
        return explain_late(search.problem, fastest_plan)
    return Infeasible("no plan was found")


def _explain_limits(search: RightTrainSearch, fastest_plan: EvaluatedPlan) -> Infeasible:
    """Energy limits, which the fastest plan breaks: that it takes longer to keep them, or that no plan does."""
    goal = search.problem.task.goal
    if goal.deadline_s is not None:
        soonest = soonest_allowed(search, max(fastest_plan.total_s, goal.deadline_s))
        if soonest is not None:
            return explain_late(search.problem, soonest)
    (over, *_) = search.allocator.over_limits(nearest_to_limits(search, fastest_plan))
    in_time = "" if goal.iteration_deadline_s is None else " in time"
    return Infeasible(f"no plan satisfies all limits{in_time}; the closest that was found: {over}")


def explain_late(problem: RightTrainProblem, fastest_plan: EvaluatedPlan) -> Infeasible:
    """That even the fastest plan is too slow: its time, and the loss that can be reached in time."""
    goal, schedule = problem.task.goal, fastest_plan.candidate.schedule
    if goal.deadline_s is None or fastest_plan.total_s <= goal.deadline_s:
        return too_late(
            "iteration_deadline_s", goal.iteration_deadline_s or 0.0, fastest_plan.total_s / schedule.iterations
        )
    tree, target = fastest_plan.candidate.tree, problem.target
    samples = sum(problem.feed_samples[feed] for feed in tree.feeds)
    iterations = int(goal.deadline_s / (fastest_plan.total_s / schedule.iterations))
    least = f"the least that can be had is {not_below(fastest_plan.total_s)} s for a loss of {target.loss:g}"
    if iterations:
        least += f", or a loss of {not_below(target.least_loss(iterations, tree.replicas, samples))} in time"
    reason = f"cannot be met; {least}"
    return Infeasible(ArgumentFault("deadline_s", f"{goal.deadline_s:g} s", reason), fastest_plan.total_s)


def _explain_forbidden(problem: RightTrainProblem) -> Infeasible:
    """Why even the simplest plans, everything on one node, are not allowed."""
    best([on_one_node(node, problem.task) for node in problem.names], problem.task)
    return Infeasible("no tree is feasible: private data, memory or missing paths rule out each")
