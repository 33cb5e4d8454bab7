"""Plans that a search begins with: the whole network on a node, split learning, and plans of other strategies.

A search that knows them is never behind them. Those of other strategies are asked for by their traits: who searches for
one phase by the event clock, for the least energy, with samples sent for every iteration as in the papers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import combinations

from palmette.errors import PalmetteError
from palmette.plan.core.choice import over_energy
from palmette.plan.core.make_plan import configured
from palmette.plan.core.registry import strategies
from palmette.plan.core.samples import apportion
from palmette.plan.core.strategy import Strategy
from palmette.plan.righttrain.cpu_allocation import MappedTree
from palmette.plan.righttrain.epochs import Schedule
from palmette.plan.righttrain.layout import Mapping
from palmette.plan.righttrain.problem import RightTrainProblem
from palmette.plan.righttrain.sample_ways import sample_ways
from palmette.plan.righttrain.trees import Group, Grouping, GroupingTree, feed_choices
from palmette.spec.cluster import Tier
from palmette.spec.goal import Goal
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed

_MAX_SPLITS = 400
"""Above these, splits in three are left to the search."""
MAX_ASKED_NODES = 48
"""Above these, other strategies are not asked: they would take longer than the search."""
_ASKED_AGAIN = 3
_ROUNDED = 1 + 1e-12


@dataclass(frozen=True)
class OtherPlan:
    """A plan of another strategy, with the epochs and data that the loss needs, and its price."""

    strategy: str
    phase: Phase
    schedule: Schedule
    total_s: float
    total_j: float


def simple_starts(problem: RightTrainProblem) -> Iterator[MappedTree]:
    """The whole network on each node, with all sources and with fewer, and each split in three over the tiers."""
    for used in feed_choices(problem):
        whole = GroupingTree(((used,),) * problem.depth)
        for node in _hosts(problem, used):
            yield from _mapped(problem, whole, ((node,),) * problem.depth)
    feeds = tuple(range(len(problem.feed_nodes)))
    if len(feeds) > problem.task.batch:
        return
    together: Grouping = (feeds,)
    apart: Grouping = tuple((feed,) for feed in feeds)
    own, splits = tuple(problem.feed_nodes), list(_splits_in_three(problem))
    for first, second, edge, cloud in splits if len(splits) <= _MAX_SPLITS else ():
        tree = GroupingTree(tuple(apart if layer < first else together for layer in range(problem.depth)))
        nodes = tuple(own if layer < first else (edge if layer < second else cloud,) for layer in range(problem.depth))
        yield from _mapped(problem, tree, nodes)


def _hosts(problem: RightTrainProblem, used: Group) -> list[int]:
    """The nodes that may have the data of some sources together."""
    private = {problem.feed_nodes[feed] for feed in used if problem.private[feed]}
    return [node for node in problem.compute_nodes if private <= {node}]


def _splits_in_three(problem: RightTrainProblem) -> Iterator[tuple[int, int, int, int]]:
    """Two cuts, an edge server and a cloud server."""
    for first, second in combinations(range(1, problem.depth), 2):
        for edge in _of_tier(problem, "edge"):
            for cloud in _of_tier(problem, "cloud"):
                yield first, second, edge, cloud


def _of_tier(problem: RightTrainProblem, tier: Tier) -> list[int]:
    return [problem.names.index(name) for name in problem.task.cluster.tier(tier)]


def _mapped(problem: RightTrainProblem, tree: GroupingTree, mapping: Mapping) -> Iterator[MappedTree]:
    schedule = problem.schedule(tree.feeds, tree.replicas, problem.proportional_split(tree.feeds))
    if schedule is not None:
        yield MappedTree(tree, mapping, schedule)


def others_least_j(problem: RightTrainProblem) -> float:
    """A lower bound of what a plan with all sources and whole CPUs uses: each sample its cheapest way, one at a time.

    Sources idle for as long as a single sample takes on its quickest way.
    """
    feeds = tuple(range(len(problem.feed_nodes)))
    schedule = problem.schedule(feeds, 1, problem.proportional_split(feeds))
    if schedule is None:
        return float("inf")
    ways = sample_ways(problem)
    least_j = sum(many * float(each) for many, each in zip(schedule.split, ways.joules, strict=True))
    idle_w = float(problem.idle_w[list(set(problem.feed_nodes))].sum())
    return schedule.iterations * (least_j + idle_w * float(ways.seconds.max()))


def plans_of_others(problem: RightTrainProblem) -> list[OtherPlan]:
    """What strategies that search by the event clock plan for the least energy in time, with the epochs of the loss."""
    if len(problem.compute_nodes) > MAX_ASKED_NODES or len(problem.feed_nodes) > problem.task.batch:
        return []
    asked = [kind for kind in strategies().values() if kind.starts_from_others and not kind.composed]
    found = [_plan_of(kind, problem) for kind in asked]
    return [plan for plan in found if plan is not None]


def _plan_of(kind: type[Strategy], problem: RightTrainProblem) -> OtherPlan | None:
    """The plan of one strategy that is in time; None where it has none.

    Most plans are in time without a deadline. How many iterations it is for, and so how long each may take, depends on
    the replicas of the plan: it is asked again with those that it had.
    """
    limit_s = None
    for _ in range(_ASKED_AGAIN):
        plan = _plan_by(kind, problem, limit_s)
        if plan is None or plan.total_s <= plan.schedule.iterations * problem.max_iteration_s(plan.schedule) * _ROUNDED:
            return plan
        limit_s = problem.max_iteration_s(plan.schedule)
    return None


def _plan_by(kind: type[Strategy], problem: RightTrainProblem, limit_s: float | None) -> OtherPlan | None:
    """The plan of one strategy for iterations of at most some seconds; None where none has one phase and one model."""
    resend = {each.name: True for each in fields(kind) if each.name == "resend"}  # type: ignore[arg-type]
    task = replace(problem.task, goal=Goal(weights={"energy": 1.0}, iteration_deadline_s=limit_s))
    try:
        (phase,) = configured(kind.name, resend).decide(task).phases
    except PalmetteError:
        return None
    return _scheduled(kind.name, phase, problem)


def _scheduled(name: str, phase: Phase, problem: RightTrainProblem) -> OtherPlan | None:
    """A phase with the fewest iterations that reach the loss; None where none do, or a limit is exceeded."""
    feeds, replicas = tuple(range(len(problem.feed_nodes))), phase.replicas
    schedule = problem.schedule(feeds, replicas, problem.proportional_split(feeds))
    if schedule is None or not phase.sync_kind.one_model:
        return None
    amounts: dict[str, int] = {}
    for node, many in zip(problem.feed_nodes, schedule.amounts, strict=True):
        amounts[problem.names[node]] = amounts.get(problem.names[node], 0) + many
    phase = phase.model_copy(update={"epochs": schedule.epochs, "sources": _with_amounts(phase, amounts)})
    price = problem.task.evaluator.price(phase)
    if price.epoch.energy_j is None or over_energy(phase, problem.task):
        return None
    total_s, total_j = (schedule.epochs * each for each in (price.epoch.time_s, price.epoch.energy_j))
    return OtherPlan(name, phase, schedule, total_s, total_j)


def _with_amounts(phase: Phase, amounts: dict[str, int]) -> tuple[Feed, ...]:
    """The sources of a phase with so many samples of an epoch from each node, in proportion to those of a batch."""
    found = []
    for name, total in amounts.items():
        feeds = [source for source in phase.sources if source.node == name]
        parts = apportion(max(total, len(feeds)), [source.samples for source in feeds])
        found += [source.model_copy(update={"epoch_samples": part}) for source, part in zip(feeds, parts, strict=True)]
    return tuple(found)
