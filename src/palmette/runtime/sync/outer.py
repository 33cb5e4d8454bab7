"""The outer optimizer: a window's mean difference as a gradient (DiLoCo, Douillard et al. 2023).

After a window, the server has the weights that all replicas began it with, and the mean of those that they ended it
with. Their difference is the gradient of a step of SGD, by default with Nesterov momentum. With a learning rate of 1
and no momentum, the mean is what remains. Buffers, such as those of batch norm, are averaged all the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from palmette.runtime.worker.messages import load_into
from palmette.runtime.worker.parameter_server import LayerTensors
from palmette.runtime.worker.weights import trainable_weights
from palmette.spec.sync import OuterOptimizer

_MOMENTUM = "momentum_buffer"


class OuterUpdates:
    """The weights that a window began with, and their momentum, which ``state`` may have from before."""

    def __init__(self, chosen: OuterOptimizer, layers: Mapping[int, nn.Module], state: Mapping[str, Tensor]) -> None:
        self._weights = {
            number: {
                name: nn.Parameter(weight.detach().cpu().clone()) for name, weight in trainable_weights(layer).items()
            }
            for number, layer in layers.items()
        }
        named = [pair for weights in self._weights.values() for pair in weights.items()]
        nesterov = chosen.nesterov and chosen.momentum > 0
        self._optimizer = torch.optim.SGD(
            [weight for _, weight in named], chosen.lr, momentum=chosen.momentum, nesterov=nesterov
        )
        for name, weight in named:
            if f"{name}/{_MOMENTUM}" in state:
                self._optimizer.state[weight][_MOMENTUM] = state[f"{name}/{_MOMENTUM}"].clone()

    def updated(self, averages: LayerTensors) -> dict[int, list[Tensor]]:
        """Update with the mean of what replicas ended a window with; returns what they go on from."""
        for number, values in averages.items():
            for weight, mean in zip(self._weights[number].values(), values, strict=False):
                weight.grad = weight.detach() - mean
        self._optimizer.step()
        self._optimizer.zero_grad()  # the next update may be of other layers
        found = {}
        for number, values in averages.items():
            weights = [weight.detach().clone() for weight in self._weights[number].values()]
            found[number] = [*weights, *values[len(weights) :]]
        return found

    def begin(self, averages: LayerTensors) -> None:
        """Begin the next window with these weights, as replicas do."""
        for number, values in averages.items():
            own = list(self._weights[number].values())
            load_into(own, values[: len(own)])

    def state(self) -> dict[str, Tensor]:
        """The momentum, by ``weight name/key``."""
        return {
            f"{name}/{_MOMENTUM}": self._optimizer.state[weight][_MOMENTUM]
            for weights in self._weights.values()
            for name, weight in weights.items()
            if self._optimizer.state[weight].get(_MOMENTUM) is not None
        }
