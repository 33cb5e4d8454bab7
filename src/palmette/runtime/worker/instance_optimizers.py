"""The optimizers of some instances of one node: one for the layers that each updates.

Their state is saved by the names of the weights, which is what checkpoints and moves of layers carry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor, nn

from palmette.runtime.options import Options
from palmette.runtime.worker.gradients import GradientStore
from palmette.runtime.worker.instance_layers import InstanceLayers
from palmette.runtime.worker.optimizers import WeightUpdates
from palmette.runtime.worker.replica_state import unmarked


class InstanceOptimizers:
    """Updates the weights of instances with the gradients that they have."""

    def __init__(self, held: InstanceLayers, gradients: GradientStore, options: Options) -> None:
        self._held, self._gradients, self._options = held, gradients, options
        self._by_instance = {k: self._optimizer(k, options.span.first) for k in held.updated}

    def _optimizer(self, k: int, first: int) -> WeightUpdates | None:
        """The optimizer of an instance, whose first iteration is ``first``; None if it updates nothing."""
        numbers = self._held.updated[k][::-1]
        names = {weight: name for number in numbers for name, weight in [*self._held.named(number)][::-1]}
        weights = {name: weight for weight, name in [*names.items()][::-1]}  # each once, under its first name
        return WeightUpdates(weights, self._options, first) if weights else None

    def reset(self, first: int) -> None:
        """Clear momentum and moments, as after an exchange of weights; the next iteration is ``first``."""
        self._by_instance = {k: self._optimizer(k, first) for k in self._held.updated}

    def update(
        self, k: int, norm: float | None = None, iterations: int = 1, numbers: Sequence[int] | None = None
    ) -> None:
        """Update the weights of an instance with its gradients, and clear these; see ``WeightUpdates.update``.

        ``numbers`` are the layers to update, where these are not all.
        """
        gradients: dict[nn.Parameter, Tensor] = {}
        for number in self._held.updated[k] if numbers is None else numbers:
            parts = self._gradients.take(k, number)
            gradients |= dict(zip(self._held.weights[number], parts, strict=True))
        optimizer = self._by_instance[k]
        if optimizer is not None:
            optimizer.update(gradients, norm, iterations)

    def squares(self, gradients: Mapping[int, Tensor], iterations: int = 1) -> float:
        """The sum of the squares of gradients, each layer's in one flat tensor, with those accumulated before."""
        total = 0.0
        for number, optimizer in self._updates():
            if number in gradients:
                own = self._gradients.split(number, gradients[number])
                total += optimizer.squares(self._held.weights[number], own, iterations)
        return total

    def own_squares(self, k: int) -> float:
        """The sum of the squares of an instance's gradients, with those accumulated before."""
        return self.squares(self._gradients.flat_of(k, self._held.updated[k]))

    def state(self) -> dict[str, Tensor]:
        """What the optimizers keep, by ``weight name/key``."""
        return {
            f"{name}/{key}": value
            for number, optimizer in self._updates()
            for name, weight in self._held.named(number)
            for key, value in optimizer.state_of(weight).items()
        }

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what ``state`` returned; what is marked as others' is left out."""
        by_weight: dict[str, dict[str, Tensor]] = {}
        for path, value in unmarked(state).items():
            name, _, key = path.rpartition("/")
            by_weight.setdefault(name, {})[key] = value
        for number, optimizer in self._updates():
            for name, weight in self._held.named(number):
                if name in by_weight:
                    optimizer.load(weight, by_weight[name])

    def _updates(self) -> Iterator[tuple[int, WeightUpdates]]:
        """The layers and ties that are updated here, with their optimizers."""
        for k, optimizer in self._by_instance.items():
            if optimizer is not None:
                for number in self._held.updated[k]:
                    yield number, optimizer
