"""Computes with gradients that accumulate on the node until they are exchanged, after several iterations."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palmette.runtime.worker.compute import Compute


class AccumulatingCompute(Compute):
    """Adds gradients to those of earlier iterations that no update has taken yet."""

    def _keep_gradients(self, k: int, gradients: Mapping[int, list[Tensor]]) -> None:
        for number, own in gradients.items():
            before = self._gradients.get((k, number))
            self._gradients[k, number] = own if before is None else list(map(torch.add, before, own))
