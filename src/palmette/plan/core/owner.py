"""The one node that owns the training data, and the nodes that its data can reach, for strategies with one source."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.errors import Fault, InputError
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Tier


def data_owner(task: Task, strategy: str) -> str:
    """The node that owns the source.

    Raises:
        InputError: no node owns data, or several do.
    """
    owners = task.cluster.sources()
    if not owners:
        raise InputError(Fault("nodes", "no source", "expected a node with a source of training data"))
    if len(owners) > 1:
        several = "hybrid shares layers and samples among several; all-device, all-edge and all-cloud take several, too"
        raise InputError(Fault("nodes", f"{len(owners)} sources", f"{strategy} expected exactly one; {several}"))
    return owners[0]


def usable_nodes(task: Task, owner: str, among: Sequence[str] | None = None) -> list[str]:
    """The nodes that the profile has times for and that data of the owner can reach, in the order of the file.

    Raises:
        InputError: there is none; says for each node what is missing.
    """
    routes, known = task.evaluator.routes, task.profile.nodes
    asked = list(task.cluster.nodes) if among is None else list(among)
    usable = [name for name in asked if name in known and routes.between(owner, name) is not None]
    if not usable:
        raise InputError(_missing(task, owner, name) for name in asked)
    return usable


def tier_nodes(task: Task, owner: str, tier: Tier) -> list[str]:
    """The usable nodes of a tier.

    Raises:
        InputError: there is none.
    """
    nodes = task.cluster.tier(tier)
    if not nodes:
        raise InputError(Fault("nodes", f"no node of tier {tier}", "expected at least one"))
    return usable_nodes(task, owner, nodes)


def _missing(task: Task, owner: str, name: str) -> Fault:
    if name in task.profile.nodes:
        expected = "there is no path between them; expected nodes that links join"
        return Fault(f"nodes.{name}", f"{owner} to {name}", expected)
    known = ", ".join(task.profile.nodes) or "no node"
    return Fault(f"nodes.{name}", name, f"the profile has no times for it, only for {known}")
