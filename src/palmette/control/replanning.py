"""Plan again with what is there: the cluster without what was lost, the same strategy, the same goal."""

from __future__ import annotations

from collections.abc import Iterable

from palmette.cost.routes import Routes
from palmette.errors import Infeasible, InputError, NodeLost, RunError
from palmette.plan import strategies
from palmette.plan.making import make_again
from palmette.spec.cluster import Cluster, Link
from palmette.spec.plan import Plan


def replanned(plan: Plan, lost: NodeLost, *, allow_data_loss: bool) -> Plan:
    """The same strategy's plan for what is left of the cluster.

    Raises:
        RunError: there is none: a person made the plan, data went with the node, or nothing fits.
    """
    cluster = plan.inputs.cluster if plan.inputs else None
    if cluster is None or not can_ask_again(plan):
        raise RunError(str(lost))
    if lost.link is None and cluster.nodes[lost.node].source is not None and not allow_data_loss:
        raise RunError(f"{lost} (its data is gone with it; --allow-data-loss goes on without)")
    return planned_for(plan, left(cluster, lost), str(lost))


def can_ask_again(plan: Plan) -> bool:
    """Whether a strategy made this plan, and it is known what that was asked."""
    return plan.asked is not None and plan.strategy in strategies()


def planned_for(plan: Plan, cluster: Cluster, reason: str) -> Plan:
    """The same strategy's plan for a cluster that has changed, for this reason.

    Raises:
        RunError: there is none.
    """
    try:
        return make_again(plan, cluster)
    except (InputError, Infeasible) as error:
        raise RunError(f"{reason} (and no other plan can be made: {str(error).splitlines()[0]})") from None


def left(cluster: Cluster, lost: NodeLost) -> Cluster:
    """The cluster without a node, or without the link over which two nodes have lost each other.

    Raises:
        RunError: nothing would be left.
    """
    if lost.link is not None:
        return with_links(cluster, _others(cluster, lost.link))
    nodes = {name: node for name, node in cluster.nodes.items() if name != lost.node}
    sets = {name: tuple(each for each in members if each != lost.node) for name, members in cluster.sets.items()}
    links = [link for link in cluster.links if lost.node not in link.between]
    if not nodes:
        raise RunError(f"{lost} (and no other node is there)")
    return Cluster(nodes=nodes, links=tuple(links), sets=sets)


def with_links(cluster: Cluster, links: Iterable[Link]) -> Cluster:
    """The cluster with other links."""
    return Cluster(nodes=cluster.nodes, links=tuple(links), sets=cluster.sets)


def _others(cluster: Cluster, ends: tuple[str, str]) -> list[Link]:
    """All links but the first on the way between two nodes: their own, if they have one."""
    way = Routes(cluster).between(*ends)
    first = way.resources[0] // 2 if way is not None else None
    return [link for k, link in enumerate(cluster.links) if k != first]
