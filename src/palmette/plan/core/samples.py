"""How the samples of a batch are shared among the sources."""

from __future__ import annotations

from collections.abc import Sequence

from palmette.errors import ArgumentFault, Fault, InputError
from palmette.plan.core.strategy import Task


def samples_by_source(task: Task) -> dict[str, int]:
    """Samples of a batch that come from each node that owns data, in proportion to what it owns.

    Raises:
        InputError: no node owns data, or the batch is smaller than the number of those that do.
    """
    owned = {name: node.source.samples for name, node in task.cluster.nodes.items() if node.source is not None}
    if not owned:
        raise InputError(Fault("nodes", "no source", "expected at least one node with a source of training data"))
    if task.batch < len(owned):
        expected = f"expected at least {len(owned)}, a sample from each source"
        raise InputError(ArgumentFault("batch", task.batch, expected))
    return dict(zip(owned, apportion(task.batch, list(owned.values())), strict=True))


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to the weights that add up to the total, each at least 1 (largest remainder)."""
    shares, left, whole = [1] * len(weights), total, sum(weights)
    sharing = sorted(range(len(weights)), key=weights.__getitem__)
    while left * weights[sharing[0]] < whole:  # less than 1 would be its part: it gets 1, the others share the rest
        left, whole = left - 1, whole - weights[sharing.pop(0)]
    remainders = {}
    for k in sorted(sharing):
        shares[k], remainders[k] = divmod(left * weights[k], whole)
    for k in sorted(remainders, key=remainders.__getitem__, reverse=True)[: total - sum(shares)]:
        shares[k] += 1
    return shares
