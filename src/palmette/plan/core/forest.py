"""Forests: the whole network on each of several nodes, which share the samples of a batch.

A node that owns data takes its own samples first. Where shares go by speed, samples of slow owners also go to faster
nodes, as far as they are not private, and are kept there. So a slow node takes part with as many samples as it manages
while the others compute, instead of making all wait. Private samples cannot move: their owner gives as many to a batch
as it manages, and a fast one more, so that an epoch draws some samples of fast owners twice and leaves others out.

    shares as owned   slow ▐████████████████▐      by speed   slow ▐████▐
                      fast ▐████▐ waits                       fast ▐████▐
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

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
PrivateShares = Literal["owned", "speed"]
"""What private owners give to a batch: in proportion to what they own, or to what their nodes manage."""


class BatchShares(NamedTuple):
    """The samples of a batch, by the node that owns them, and by the node that trains on them."""

    given: Mapping[str, int]
    trained: Mapping[str, int]


def whole_network(node: str, task: Task) -> Instance:
    """The whole network on a node, with all of the CPU that it may use."""
    layers = (1, len(task.profile.layers))
    return Instance(id=node, layers=layers, node=node, cpu_share=task.cluster.nodes[node].limits.cpu_share)


def servers(task: Task) -> list[str]:
    """The nodes that are tried as servers: those without data, and the fastest of the others."""
    spare = [name for name in task.cluster.computing if task.cluster.nodes[name].source is None]
    owners = [name for name in _by_speed(task) if name not in spare]
    return [*spare[:_MOST_NODES], *owners[:_MOST_NODES]]


def forests(task: Task, every: int, outer: OuterOptimizer | None, private: PrivateShares = "owned") -> Iterator[Phase]:
    """Forests of two trees or more that train apart: one at each owner with its own samples; and with shares by speed.

    Weights are averaged after ``every`` steps, if need be with an outer optimizer. Where ``private`` says so, there
    are also forests in which private owners give as many samples to a batch as they manage.

    Raises:
        Infeasible: one node alone would train.
    """
    owned = samples_by_source(task)
    found = [BatchShares(owned, owned), *_by_speed_as_owned(task, owned)]
    found += _all_by_speed(task, owned) if private == "speed" else []
    several = [shares for shares in found if len(shares.trained) > 1]
    if not several:
        raise Infeasible(Fault("nodes", "one node that could train", "expected several, each with a replica"))
    for shares in {_items(each): each for each in several}.values():
        forest = _forest(shares, task).model_copy(update={"sync": "every", "every": every, "outer": outer})
        yield recompute_to_fit(with_delivery(forest, task), task)


def _items(shares: BatchShares) -> tuple[tuple[tuple[str, int], ...], ...]:
    return tuple(shares.given.items()), tuple(shares.trained.items())


def _by_speed_as_owned(task: Task, owned: Mapping[str, int]) -> Iterator[BatchShares]:
    """Samples of a batch for private owners as they are, and for the fastest others by their speed."""
    private = {name: many for name, many in owned.items() if _is_private(name, task)}
    left = sum(owned.values()) - sum(private.values())
    others = [name for name in _by_speed(task) if name not in private]
    for many in range(1, min(len(others), _MOST_NODES, left) + 1):
        shared = zip(others, apportion(left, _speeds(others[:many], task)), strict=False)
        yield BatchShares(owned, private | dict(shared))


def _all_by_speed(task: Task, owned: Mapping[str, int]) -> Iterator[BatchShares]:
    """Samples of a batch by speed for private owners, too, and for the fastest others as far as data may move."""
    private = [name for name in owned if _is_private(name, task)]
    movable = {name: many for name, many in owned.items() if name not in private}
    others = [name for name in _by_speed(task) if name not in private]
    if not private or any(name not in task.profile.nodes for name in private):
        return
    most = min(len(others), _MOST_NODES, task.batch - len(private)) if movable else 0
    for many in range(1 if movable else 0, most + 1):
        nodes = [*private, *others[:many]]
        trained = _done_together(nodes, task)
        moved = sum(trained[name] for name in others[:many])
        if moved >= len(movable):
            given = dict(zip(movable, apportion(moved, list(movable.values())), strict=True)) if movable else {}
            yield BatchShares({name: (given if name in movable else trained)[name] for name in owned}, trained)


def _done_together(nodes: Sequence[str], task: Task) -> dict[str, int]:
    """Samples of a batch for each node, at least one, so that the last is done as soon as can be.

    A sample goes to the node that would be done with it first: calls have fixed parts, of which a slow node has more.
    """
    shares = dict.fromkeys(nodes, 1)
    waiting = [(_step_s(name, 2, task), k, name) for k, name in enumerate(nodes)]
    heapq.heapify(waiting)
    for _ in range(task.batch - len(nodes)):
        _, k, name = waiting[0]
        shares[name] += 1
        heapq.heapreplace(waiting, (_step_s(name, shares[name] + 1, task), k, name))
    return shares


def _speeds(nodes: Sequence[str], task: Task) -> list[int]:
    """The speeds of nodes as whole numbers, in millionths of the fastest."""
    found = [_speed(name, task) for name in nodes]
    return [max(1, round(_SPEED_UNIT * each / max(found))) for each in found]


def _forest(shares: BatchShares, task: Task) -> Phase:
    """A tree on each node that takes a share, fed by itself first and by others then."""
    left, wanted, feeds = dict(shares.given), dict(shares.trained), dict[tuple[str, str], int]()
    for source, node in [*((name, name) for name in wanted if name in left), *((a, b) for a in left for b in wanted)]:
        taken = min(left[source], wanted[node])
        if taken:
            feeds[source, node] = feeds.get((source, node), 0) + taken
            left[source], wanted[node] = left[source] - taken, wanted[node] - taken
    return Phase(
        sources=tuple(Feed(node=source, samples=many, into=node) for (source, node), many in feeds.items()),
        instances=tuple(whole_network(node, task) for node in shares.trained),
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
    return task.batch / max(_step_s(name, task.batch, task), 1e-12)


def _step_s(name: str, samples: int, task: Task) -> float:
    """Seconds of a node's calls for so many samples."""
    seconds, depth = task.evaluator.seconds(name), len(task.profile.layers)
    took_s = seconds.forward_s(1, depth, samples) + seconds.backward_s(1, depth, samples)
    return took_s / task.cluster.nodes[name].limits.cpu_share
