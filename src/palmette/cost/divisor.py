"""Losses whose divisor varies (padding, weights of classes): how several roots find that of the whole batch.

After its forward call a root knows the sum of its samples' losses, and what they count. Its backward call needs the
count of the whole batch, so the nodes with roots send theirs to the first root's node and get the total back:

    server   … forward ──▶ count ──▶ divisor ──▶ total divisor ──▶ backward …    (found on the first root's node)
"""

from __future__ import annotations

from collections.abc import Sequence

from palmette.cost.steps import Kind, Step, Steps, add
from palmette.spec.plan import Phase


def add_total_divisor(steps: Steps, phase: Phase, forward: Sequence[int]) -> list[int]:
    """Add the exchange of counts after the roots' forward calls; nothing where there is one root.

    Returns what the backward call of each instance comes after where no gradient comes back to it.
    """
    by_node: dict[str, list[int]] = {}
    roots = [k for k, instance in enumerate(phase.instances) if instance.into is None]
    if len(roots) == 1:
        return list(forward)
    for k in roots:
        by_node.setdefault(phase.instances[k].node, []).append(k)
    (place, here), *away = by_node.items()
    found = [forward[k] for k in here]
    for node, own in away:
        found.append(add(steps, Step(Kind.COUNT, own[0], node, [forward[k] for k in own], place)))
    divisor = add(steps, Step(Kind.DIVISOR, here[0], place, found))
    known = {place: divisor}
    for node, own in away:
        known[node] = add(steps, Step(Kind.TOTAL_DIVISOR, own[0], place, [divisor], node))
    return [forward[k] if i.into is not None else known[i.node] for k, i in enumerate(phase.instances)]
