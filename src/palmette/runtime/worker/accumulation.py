"""Computes with gradients that accumulate on the node until they are exchanged, after several iterations."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from palmette.runtime.worker.compute import Compute


class AccumulatingCompute(Compute):
    """Adds gradients to those of earlier iterations that no update has taken yet."""

    def _keep_gradients(self, k: int, gradients: Sequence[Tensor]) -> None:
        before = {number: self._gradients[k, number] for number in self._held[k] if (k, number) in self._gradients}
        super()._keep_gradients(k, gradients)
        for number, parts in before.items():
            self._gradients[k, number] = list(map(torch.add, parts, self._gradients[k, number]))
