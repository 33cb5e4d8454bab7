"""Clipping by the norm of all gradients: how nodes find it together before they update.

Each weight counts once, on the first node of the plan that updates it, with its average over all replicas. The nodes
send the sum of the squares of their part to the first root's node, and get the norm of the whole back:

    phone   … pull ──▶ squares ──▶ norm ──▶ total norm ──▶ update       (the norm is found on the first root's node)

Where trees train apart, each is a network of its own: its instances find the norm of their own gradients at its root.
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.sizes import Run, Sizes, runs_of
from palmette.cost.steps import Kind, Step, Steps, add
from palmette.spec.plan import Phase


def add_tree_norms(steps: Steps, phase: Phase, sizes: Sizes, updates: Sequence[Step]) -> None:
    """Add the exchange of the norm for every tree that is cut; ``updates`` are those of all instances, in order."""
    index = {instance.id: k for k, instance in enumerate(phase.instances)}
    by_root: dict[int, list[Step]] = {}
    for k, update in enumerate(updates):
        root, into = k, phase.instances[k].into
        while into is not None:
            root, into = index[into], phase.instances[index[into]].into
        by_root.setdefault(root, []).append(update)
    for root, own in by_root.items():
        if len(own) > 1:
            add_total_norm(steps, phase, sizes, own, root)


def add_total_norm(steps: Steps, phase: Phase, sizes: Sizes, updates: Sequence[Step], root: int | None = None) -> None:
    """Add the exchange of the norm, after all that updates wait for; they wait for the norm from now on.

    It is found at the first root, or at ``root``.
    """
    home = next(k for k, instance in enumerate(phase.instances) if instance.into is None) if root is None else root
    place = phase.instances[home].node
    by_node: dict[str, list[Step]] = {}
    for update in updates:
        if sizes.exchanged_bytes(update.layers):
            by_node.setdefault(update.node, []).append(update)
    counted = _counted_layers(by_node, sizes)
    found: list[int] = []
    for node, layers in counted.items():
        ready = list(dict.fromkeys(need for update in by_node[node] for need in update.after))
        if node == place:
            found += ready
        else:
            squares = Step(Kind.SQUARES, by_node[node][0].instance, node, ready, place, layers=layers)
            found.append(add(steps, squares))
    norm = add(steps, Step(Kind.NORM, home, place, found, layers=counted.get(place, ())))
    for node, own in by_node.items():
        known = norm
        if node != place:
            known = add(steps, Step(Kind.TOTAL_NORM, own[0].instance, place, [norm], node))
        for update in own:
            update.after.append(known)


def _counted_layers(by_node: dict[str, list[Step]], sizes: Sizes) -> dict[str, tuple[Run, ...]]:
    """The layers with weights whose squares each node adds up; nodes that have none to add are left out."""
    taken: set[int] = set()
    found = {}
    for node, updates in by_node.items():
        held = {n for update in updates for first, last in update.layers for n in range(first, last + 1)}
        own = sorted(n for n in held - taken if sizes.exchanged_bytes([(n, n)]))
        taken.update(own)
        if own:
            found[node] = runs_of(own)
    return found
