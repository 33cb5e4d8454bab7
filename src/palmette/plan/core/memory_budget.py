"""The memory that a search may fill, so that what it finds passes the evaluator's check to the last byte."""

from __future__ import annotations

from palmette.plan.core.strategy import Task

_EXACT = 2.0**53  # whole numbers below are floats, and so are their sums
_ALMOST_ALL = 1 - 1e-9


def memory_budget_bytes(task: Task, names: list[str]) -> list[float]:
    """Bytes that may be filled on each node: its memory; infinite where it is not known.

    Where sizes are fractions of a byte, slightly less: the check adds them up in another order, with other rounding.
    """
    sizes = [size for layer in task.profile.layers for size in (layer.parameter_bytes, layer.kept_bytes)]
    most = max(task.batch, 2 + task.state_copies) * sum(sizes)
    usable = 1.0 if most < _EXACT and all(float(size).is_integer() for size in sizes) else _ALMOST_ALL
    known = [task.cluster.nodes[name].memory_bytes for name in names]
    return [float("inf") if memory is None else memory * usable for memory in known]
