"""Computes with gradients that are added up on the node: in an iteration, or until they are exchanged after several."""

from __future__ import annotations

from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.gradients import AccumulatingGradients, SummedGradients


class SummingCompute(Compute):
    """Adds the gradients of instances that share their weights up as they come."""

    _store = SummedGradients


class AccumulatingCompute(Compute):
    """Keeps the gradients of earlier iterations that no update has taken yet."""

    _store = AccumulatingGradients
