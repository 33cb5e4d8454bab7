"""Plan again with what is there: the cluster without what was lost, the same strategy, the same goal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from palmette.cost.routes import Routes
from palmette.errors import Infeasible, InputError, NodeLost, RunError
from palmette.plan.core.make_plan import replan
from palmette.plan.core.registry import strategies
from palmette.spec.cluster import Cluster, Link
from palmette.spec.plan import Plan


def replanned(plan: Plan, lost: NodeLost, *, allow_data_loss: bool, gone: Collection[str] = ()) -> Plan:
    """The same strategy's plan for what is left of the cluster, also without others that are ``gone``.

    Raises:
        RunError: there is none: a person made the plan, data went with a node, or nothing fits.
    """
    cluster = plan.inputs.cluster if plan.inputs else None
    if cluster is None or not can_ask_again(plan):
        raise RunError(str(lost))
    smaller = left(cluster, lost, gone)
    if not allow_data_loss and smaller.sources() != cluster.sources():
        raise RunError(f"{lost} (its data goes with it; --allow-data-loss goes on without)")
    return planned_for(plan, smaller, str(lost))


def can_ask_again(plan: Plan) -> bool:
    """Whether a strategy made this plan, and it is known what that was asked."""
    return plan.asked is not None and plan.strategy in strategies()


def planned_for(plan: Plan, cluster: Cluster, reason: str) -> Plan:
    """The same strategy's plan for a cluster that has changed, for this reason.

    Raises:
        RunError: there is none.
    """
    try:
        return replan(plan, cluster)
    except (InputError, Infeasible) as error:
        raise RunError(f"{reason} (and no other plan can be made: {str(error).splitlines()[0]})") from None


def left(cluster: Cluster, lost: NodeLost, gone: Collection[str] = ()) -> Cluster:
    """The cluster without a node and others that are ``gone``, or without the link over which two lost each other.

    Raises:
        RunError: nothing would be left.
    """
    if lost.pairs:
        cluster = with_links(cluster, _others(cluster, lost))
    missing = {*gone, *([] if lost.pairs else [lost.node])}
    if missing >= set(cluster.nodes):
        raise RunError(f"{lost} (and no other node is there)")
    return only(cluster, set(cluster.nodes) - missing)


def only(cluster: Cluster, names: Collection[str]) -> Cluster:
    """The part of a cluster that some of its nodes make up."""
    return Cluster(
        nodes={name: node for name, node in cluster.nodes.items() if name in names},
        links=tuple(link for link in cluster.links if all(end in names for end in link.between)),
        sets={name: tuple(each for each in members if each in names) for name, members in cluster.sets.items()},
    )


def with_links(cluster: Cluster, links: Iterable[Link]) -> Cluster:
    """The cluster with other links."""
    return Cluster(nodes=cluster.nodes, links=tuple(links), sets=cluster.sets)


def _others(cluster: Cluster, lost: NodeLost) -> list[Link]:
    """All links but the one that is most likely cut: on the way between most of the pairs, and nearest to the lost."""
    routes = Routes(cluster)
    ways = [way for one, other in lost.pairs if (way := routes.between(one, other)) is not None]
    to_lost = [routes.between(end, lost.node) for pair in lost.pairs for end in pair if end != lost.node]
    nearest = {way.resources[-1] // 2 for way in to_lost if way is not None}
    times = Counter(resource // 2 for way in ways for resource in way.resources)
    cut = max(times, key=lambda link: (times[link], link in nearest), default=None)
    return [link for k, link in enumerate(cluster.links) if k != cut]
