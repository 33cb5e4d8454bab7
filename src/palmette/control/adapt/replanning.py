"""Plan again for the cluster without what was lost: the same strategy, the same goal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from palmette.cost.routes import Routes
from palmette.errors import Argument, Infeasible, InputError, Message, NodeLost, RunError
from palmette.plan.core.make_plan import replan
from palmette.plan.core.registry import strategies
from palmette.spec.cluster import Cluster, Link
from palmette.spec.plan import Plan


def replan_without(plan: Plan, lost: NodeLost, *, allow_data_loss: bool, gone: Collection[str] = ()) -> Plan:
    """The same strategy's plan for what is left of the cluster, also without others that are ``gone``.

    Raises:
        RunError: there is none: a person wrote the plan, data is lost with a node, or nothing fits. With secure
            aggregation no round is repeated without a node: the server would have sums with and without its weights.
    """
    cluster = plan.inputs.cluster if plan.inputs else None
    if cluster is None or not can_replan(plan):
        raise RunError(str(lost))
    smaller = remaining(cluster, lost, gone)
    loses_data = smaller.sources() != cluster.sources()
    if loses_data and any(phase.secure_aggregation for phase in plan.phases):
        raise RunError(f"{lost} (its data is lost with it, and the sum of a round without it would tell its weights)")
    if loses_data and not allow_data_loss:
        allow = Argument("allow_data_loss")
        raise RunError(Message(f"{lost} (its data is lost with it; ", allow, " continues without it)"))
    return replan_for(plan, smaller, str(lost))


def can_replan(plan: Plan) -> bool:
    """Whether a strategy made this plan, and the plan says what was asked of it."""
    return plan.asked is not None and plan.strategy in strategies()


def replan_for(plan: Plan, cluster: Cluster, reason: str) -> Plan:
    """The same strategy's plan for a cluster that has changed, for this reason.

    Raises:
        RunError: there is none.
    """
    try:
        return replan(plan, cluster)
    except (InputError, Infeasible) as error:
        why = error.faults[0].message if isinstance(error, InputError) else error.message
        raise RunError(Message(f"{reason} (and no other plan is possible: ", why, ")")) from None


def remaining(cluster: Cluster, lost: NodeLost, gone: Collection[str] = ()) -> Cluster:
    """The cluster without a node and others that are ``gone``, or without a link that was cut.

    Raises:
        RunError: nothing would be left.
    """
    if lost.pairs:
        cluster = with_links(cluster, _other_links(cluster, lost))
    missing = {*gone, *([] if lost.pairs else [lost.node])}
    if missing >= set(cluster.nodes):
        raise RunError(f"{lost} (and no other node is left)")
    return subcluster(cluster, set(cluster.nodes) - missing)


def subcluster(cluster: Cluster, names: Collection[str]) -> Cluster:
    """The part of a cluster that some of its nodes make up."""
    return Cluster(
        nodes={name: node for name, node in cluster.nodes.items() if name in names},
        links=tuple(link for link in cluster.links if all(end in names for end in link.between)),
        sets={name: tuple(each for each in members if each in names) for name, members in cluster.sets.items()},
        carbon_g_per_kwh=cluster.carbon_g_per_kwh,
    )


def with_links(cluster: Cluster, links: Iterable[Link]) -> Cluster:
    """The cluster with other links."""
    return cluster.model_copy(update={"links": tuple(links)})


def _other_links(cluster: Cluster, lost: NodeLost) -> list[Link]:
    """All links but the one most likely cut: on the routes of most of the pairs, and nearest to the lost node."""
    routes = Routes(cluster)
    between = [route for one, other in lost.pairs if (route := routes.between(one, other)) is not None]
    to_lost = [routes.between(end, lost.node) for pair in lost.pairs for end in pair if end != lost.node]
    nearest = {route.resources[-1] // 2 for route in to_lost if route is not None}
    times = Counter(resource // 2 for route in between for resource in route.resources)
    cut = max(times, key=lambda link: (times[link], link in nearest), default=None)
    return [link for k, link in enumerate(cluster.links) if k != cut]
