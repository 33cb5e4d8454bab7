"""Replicas that average their gradients around a ring: all-reduce, as NCCL does it among equal machines.

The nodes that hold the same layers stand in a ring, in the plan's order. In each of 2 (n − 1) rounds every node sends
the n-th part of its gradients to the next one: first sums go round, then averages.

    a ─▶ b ─▶ c ─▶ a        a round: three messages of a third each, at the same time

A node sends and receives 2 (n − 1) / n of its gradients, however many there are; where they meet on one node, that one
takes n − 1 of them.
"""

from __future__ import annotations

from palmette.cost.replicas import ReplicatedLayers, replicated_layers, replicated_ties, updated_layers
from palmette.cost.routes import Routes
from palmette.cost.sizes import Run, Sizes
from palmette.cost.steps import Kind, Step, Steps, add
from palmette.spec.plan import Phase


def add_ring(steps: Steps, phase: Phase, sizes: Sizes, routes: Routes, backward: list[int]) -> list[Step]:
    """Add the exchange of gradients under ``step``, around rings; returns the updates that follow it."""
    runs = [*replicated_layers(phase, routes), *replicated_ties(phase, sizes, routes)]
    rings: dict[tuple[str, ...], list[ReplicatedLayers]] = {}
    for run in runs:
        nodes = tuple(dict.fromkeys(phase.instances[k].node for k in run.replicas))
        if sizes.exchanged_bytes([run.layers]):
            rings.setdefault(nodes, []).append(run)
    done: dict[str, list[int]] = {}
    for nodes, own in rings.items():
        if len(nodes) > 1:
            for node, number in _rounds(steps, phase, nodes, own, backward).items():
                done.setdefault(node, []).append(number)
    last = _last_backward(phase, backward)
    updates = []
    for k, layers in enumerate(updated_layers(phase.instances, sizes.ties, phase.depth)):
        if layers:
            node = phase.instances[k].node
            updates.append(Step(Kind.UPDATE, k, node, [*last[node], *done.get(node, [])], layers=layers))
    return updates


def _rounds(
    steps: Steps, phase: Phase, nodes: tuple[str, ...], runs: list[ReplicatedLayers], backward: list[int]
) -> dict[str, int]:
    """Add the rounds of a ring; returns the last message that each node gets."""
    layers: tuple[Run, ...] = tuple(run.layers for run in runs)
    holders = sorted({k for run in runs for k in run.replicas})
    here = {node: [k for k in holders if phase.instances[k].node == node] for node in nodes}
    ready = {node: [backward[k] for k in here[node]] for node in nodes}
    for _ in range(2 * (len(nodes) - 1)):
        sent = {}
        for k, node in enumerate(nodes):
            to = nodes[(k + 1) % len(nodes)]
            step = Step(Kind.PUSH, here[node][0], node, ready[node], to, layers=layers, parts=len(nodes))
            sent[node] = add(steps, step)
        ready = {node: [sent[nodes[k - 1]], sent[node]] for k, node in enumerate(nodes)}
    return {node: numbers[0] for node, numbers in ready.items()}


def _last_backward(phase: Phase, backward: list[int]) -> dict[str, list[int]]:
    """The backward calls of each node."""
    found: dict[str, list[int]] = {}
    for k, instance in enumerate(phase.instances):
        found.setdefault(instance.node, []).append(backward[k])
    return found
