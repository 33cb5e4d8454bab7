"""A chain of instances: every layer on one node, the whole batch through all of them, one after the other.

The rivals of HierTrain are such chains. Their formula has HierTrain's conventions: transfers and computing take turns,
backward runs where forward ran, the gradient is as large as the output, and nodes update in parallel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from palmette.cost.check import forbidden
from palmette.errors import Fault, Infeasible
from palmette.plan.core.choice import best, over_energy
from palmette.plan.core.strategy import Decision, Task
from palmette.spec.codec import PLAIN, Codec
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance


def iteration_s(nodes: Sequence[str], task: Task, owner: str, codec: Codec = PLAIN) -> float:
    """Seconds of an iteration with layer k on ``nodes[k-1]``, transfers and computing one after the other."""
    prices = task.evaluator
    sizes = prices.sizes()
    route = prices.route(owner, nodes[0])
    total = route.transfer_s(task.batch * sizes.sample_bytes(owner)) if route.hops else 0.0
    updates: dict[str, float] = {}
    for node, first, last in runs(nodes):
        share, seconds = task.cluster.nodes[node].limits.cpu_share, prices.seconds(node)
        total += (seconds.forward_s(first, last, task.batch) + seconds.backward_s(first, last, task.batch)) / share
        updates[node] = updates.get(node, 0.0) + seconds.update_s(first, last) / share
        if last < len(nodes):
            route = prices.route(node, nodes[last])
            there_s = route.transfer_s(sizes.message_bytes(last, task.batch, codec))
            back_s = prices.route(nodes[last], node).transfer_s(sizes.gradient_message_bytes(last, task.batch, codec))
            total += there_s + back_s * sizes.has_gradient(last)
    return total + max(updates.values())


def runs(nodes: Sequence[str]) -> Iterable[tuple[str, int, int]]:
    """Consecutive layers on one node: node, first and last layer."""
    layer = 0
    for node, group in itertools.groupby(nodes):
        first = layer + 1
        layer += len(list(group))
        yield node, first, layer


def chain(nodes: Sequence[str], task: Task, owner: str, codec: Codec = PLAIN) -> Phase:
    """The phase with layer k on ``nodes[k-1]``."""
    parts = list(runs(nodes))
    last = len(parts)
    instances = tuple(
        Instance(
            id=f"part{k}",
            layers=(first, end),
            node=node,
            cpu_share=task.cluster.nodes[node].limits.cpu_share,
            into=f"part{k + 1}" if k < last else None,
            codec=codec if k < last else PLAIN,
        )
        for k, (node, first, end) in enumerate(parts, 1)
    )
    return Phase(sources=(Feed(node=owner, samples=task.batch, into="part1"),), instances=instances)


def faults_of(phase: Phase, task: Task) -> list[Fault]:
    """What keeps a chain of nodes that can talk from running: private data, memory, limits."""
    return list(forbidden(phase, task.evaluator)) or over_energy(phase, task)


def first_feasible(ranked: Iterable[Sequence[str]], task: Task, owner: str, codec: Codec = PLAIN) -> Decision:
    """The first of the assignments, best first, that may run.

    Raises:
        Infeasible: none may run, or the best misses the deadline.
    """
    refused: Fault | None = None
    for nodes in ranked:
        phase = chain(nodes, task, owner, codec)
        faults = faults_of(phase, task)
        if not faults:
            phase = best([phase], task).phase  # in time for a deadline, if there is one
            variables = {"iteration_s": iteration_s(nodes, task, owner, codec), "nodes": list(nodes)}
            return Decision((phase,), variables)
        refused = refused or faults[0]
    raise Infeasible(f"no assignment may run: {refused}")
