"""In which order the nodes of a phase compute their microbatches: in turns where memory or time is better for it.

In turns (``order: 1f1b``) a node keeps the activations of fewer microbatches than first come, first served, and mostly
takes as long; so a phase that does not fit is tried in turns, and of good plans both orders are priced.
"""

from __future__ import annotations

from typing import Any

from palmette.cost.order import microbatches, takes_turns
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Phase


def in_turns(phase: Phase) -> Phase | None:
    """The phase with its microbatches in turns; None where it has none, or where its tree leaves no such order."""
    turns = phase.model_copy(update={"order": "1f1b"})
    several = any(len(group) > 1 for group in microbatches(turns))
    return turns if several and phase.order != "1f1b" and takes_turns(turns) else None


def order_price(phase: Phase, task: Task) -> dict[str, Any]:
    """What turns cost and save in a phase, as it stands in a decision; nothing where calls are as they come."""
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
