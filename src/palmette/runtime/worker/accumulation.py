"""Computes with gradients that accumulate on the node until they are exchanged, after several iterations."""

from __future__ import annotations

from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.gradients import AccumulatingGradients


class AccumulatingCompute(Compute):
    """Keeps the gradients of earlier iterations that no update has taken yet."""

    _store = AccumulatingGradients
