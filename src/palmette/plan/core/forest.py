"""Forests: the whole network on each of several nodes, which share the samples of a batch.

A node that owns data takes its own samples first. Where shares go by speed, samples of slow owners also go to faster
nodes, as far as they are not private, and are kept there. So a slow node takes part with as many samples as it manages
while the others compute, instead of making all wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from palmette.errors import Fault, Infeasible
from palmette.plan.core.delivery import with_delivery
from palmette.plan.core.recompute import recompute_to_fit
from palmette.plan.core.samples import apportion, samples_by_source
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Phase
from palmette.spec.sync import OuterOptimizer
from palmette.spec.tree import Feed, Instance

_MOST_NODES = 8
"""Nodes without private data that are tried as replicas, the fastest first, and as servers."""
_SPEED_UNIT = 10**6


def whole_network(node: str, task: Task) -> Instance:
    """The whole network on a node, with all of the CPU that it may use."""
    layers = (1, len(task.profile.layers))
    return Instance(id=node, layers=layers, node=node, cpu_share=task.cluster.nodes[node].limits.cpu_share)


def servers(task: Task) -> list[str]:
    """The nodes that are tried as servers: those without data, and the fastest of the others."""
    spare = [name for name in task.cluster.computing if task.cluster.nodes[name].source is None]
    owners = [name for name in _by_speed(task) if name not in spare]
    return [*spare[:_MOST_NODES], *owners[:_MOST_NODES]]


def forests(task: Task, every: int, outer: OuterOptimizer | None) -> Iterator[Phase]:
    """Forests of two trees or more that train apart: one at each owner with its own samples; and with shares by speed.

    Weights are averaged after ``every`` steps, if need be with an outer optimizer.

    Raises:
        Infeasible: one node alone would train.
    """
    owned = samples_by_source(task)
    found = [dict(owned), *_shares_by_speed(task, owned)]
    several = [shares for shares in found if len(shares) > 1]
    if not several:
        raise Infeasible(Fault("nodes", "one node that could train", "expected several, each with a replica"))
    for shares in {tuple(each.items()): each for each in several}.values():
        forest = _forest(shares, owned, task).model_copy(update={"sync": "every", "every": every, "outer": outer})
        yield recompute_to_fit(with_delivery(forest, task), task)


def _shares_by_speed(task: Task, owned: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Samples of a batch for private owners as they are, and for the fastest others by their speed."""
    private = {name: many for name, many in owned.items() if _is_private(name, task)}
    left = sum(owned.values()) - sum(private.values())
    others = [name for name in _by_speed(task) if name not in private]
    for many in range(1, min(len(others), _MOST_NODES, left) + 1):
        speeds = [max(1, round(_SPEED_UNIT * _speed(name, task) / _speed(others[0], task))) for name in others[:many]]
        yield private | dict(zip(others, apportion(left, speeds), strict=False))


def _forest(shares: Mapping[str, int], owned: Mapping[str, int], task: Task) -> Phase:
    """A tree on each node that takes a share, fed by itself first and by others then."""
    left, wanted, feeds = dict(owned), dict(shares), dict[tuple[str, str], int]()
    for source, node in [*((name, name) for name in shares if name in owned), *((a, b) for a in owned for b in shares)]:
        taken = min(left[source], wanted[node])
        if taken:
            feeds[source, node] = feeds.get((source, node), 0) + taken
            left[source], wanted[node] = left[source] - taken, wanted[node] - taken
    return Phase(
        sources=tuple(Feed(node=source, samples=many, into=node) for (source, node), many in feeds.items()),
        instances=tuple(whole_network(node, task) for node in shares),
    )


def _is_private(name: str, task: Task) -> bool:
    source = task.cluster.nodes[name].source
    return source is not None and bool(source.private)


def _by_speed(task: Task) -> Sequence[str]:
    """The nodes with times in the profile, the fastest first."""
    known = [name for name in task.cluster.nodes if name in task.profile.nodes]
    return sorted(known, key=lambda name: -_speed(name, task))


def _speed(name: str, task: Task) -> float:
    """Samples of a batch that a node computes in a second; a large number where that takes no time."""
    seconds, depth = task.evaluator.seconds(name), len(task.profile.layers)
    took_s = seconds.forward_s(1, depth, task.batch) + seconds.backward_s(1, depth, task.batch)
    return task.batch * task.cluster.nodes[name].limits.cpu_share / max(took_s, 1e-12)
