"""In which order the nodes of a phase compute their microbatches: in turns where memory or time is better for it.

In turns (``order: 1f1b``) a node keeps the activations of fewer microbatches than first come, first served, and mostly
takes as long; so a phase that does not fit is tried in turns, and of good plans both orders are priced. With backward
in halves (``order: zero-bubble``) nodes wait less and keep more. Whoever computes in halves does a little more than the
profile says, so they have to be clearly faster; and only a profile that says how long the halves take is relied on.
"""

from __future__ import annotations

from typing import Any

from palmette.cost.halves import halved_instances
from palmette.cost.order import microbatches, takes_turns
from palmette.cost.seconds import input_parts
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Order, Phase
from palmette.spec.profile import Profile

WHOLE_BACKWARD: tuple[Order, ...] = ("fifo", "1f1b")
"""The orders that a search may take any plan in; halves are only tried on its best plans."""
_LEAST_GAIN = 0.02


def in_turns(phase: Phase) -> Phase | None:
    """The phase with its microbatches in turns; None where it has none, or where its tree leaves no such order."""
    turns = phase.model_copy(update={"order": "1f1b"})
    several = any(len(group) > 1 for group in microbatches(turns))
    return turns if several and phase.order != "1f1b" and takes_turns(turns) else None


def in_halves(phase: Phase, task: Task) -> Phase | None:
    """The phase with backward in halves; None where that is not clearly faster, or the profile has no halves."""
    prices, halves = task.evaluator, phase.model_copy(update={"order": "zero-bubble"})
    halved = halved_instances(halves, prices.sizes(phase.pruning))
    table = task.profile.variant(phase.pruning)
    assert table is not None, "a phase has been priced"
    if not halved or any(table.nodes[phase.instances[k].node].backward_input_s is None for k in halved):
        return None
    most_s = (1 - _LEAST_GAIN) * prices.price(phase).iteration_s
    return halves if prices.price(halves).iteration_s <= most_s else None


def with_first_halves(profile: Profile) -> Profile:
    """The profile with no more of backward than its first halves: nobody waits for the others, whatever the order."""
    nodes = {
        name: times.model_copy(
            update={
                "backward_s": tuple(part * each for part, each in zip(parts, times.backward_s, strict=True)),
                "backward_call_s": times.backward_call_s
                and tuple(part * each for part, each in zip(parts, times.backward_call_s, strict=True)),
            }
        )
        for name, times in profile.nodes.items()
        if (parts := input_parts(profile.layers, times))
    }
    return profile.model_copy(update={"nodes": nodes})


def order_price(phase: Phase, task: Task) -> dict[str, Any]:
    """What an order costs and saves in a phase, as it stands in a decision; nothing where calls are as they come."""
    if phase.order == "fifo":
        return {}
    prices, fifo = task.evaluator, phase.model_copy(update={"order": "fifo"})
    found = {
        "chosen": phase.order,
        "added_s": prices.price(phase).iteration_s - prices.price(fifo).iteration_s,
        "peak_bytes": prices.peak_bytes(phase),
        "otherwise_bytes": prices.peak_bytes(fifo),
    }
    return {"order": found}
