"""Updates some weights with their gradients: accumulates these, clips them, and sets the learning rate.

What an optimizer keeps of a weight is saved by ``weight name/key``. Numbers become tensors under ``key:number``. The
sum of accumulated gradients is saved beside them, and of how many iterations it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from palmette.runtime.optimizer_choice import optimizer_for
from palmette.runtime.options import Options
from palmette.runtime.schedule import schedule_for

_NUMBER = ":number"
_ACCUMULATED, _ITERATIONS = "accumulated", "accumulated_iterations"
# As in torch.nn.utils.clip_grad_norm_.
_EPSILON = 1e-6


class WeightUpdates:
    """The optimizer of some weights, by name, with its schedule; ``first`` is its first iteration."""

    def __init__(self, weights: Mapping[str, nn.Parameter], options: Options, first: int) -> None:
        self._weights, self._options = weights, options
        self._optimizer = optimizer_for(weights, options)
        self._schedule = schedule_for(self._optimizer, options, first)
        self._accumulated: dict[nn.Parameter, Tensor] = {}
        self._iterations = 0
        self._waiting: set[nn.Parameter] = set()

    def _completed_by(self, iterations: int) -> bool:
        """Whether the gradients of so many iterations complete an update, after those that were accumulated."""
        return self._iterations + iterations == self._options.accumulate

    def squares(self, weights: Sequence[nn.Parameter], gradients: Sequence[Tensor], iterations: int = 1) -> float:
        """The sum of the squares of what some weights are to be updated with; 0 where gradients only accumulate."""
        if not self._completed_by(iterations):
            return 0.0
        means = [self._mean(weight, gradient) for weight, gradient in zip(weights, gradients, strict=True)]
        return float(sum(mean.double().square().sum() for mean in means))

    def update(self, gradients: Mapping[nn.Parameter, Tensor], norm: float | None = None, iterations: int = 1) -> None:
        """Update with one gradient for each weight, or accumulate it; ``norm`` is that of all weights of the network.

        Without it, gradients are clipped by the norm of these weights'. A gradient is the sum over ``iterations``. In
        an iteration that updates some weights after others, the learning rate changes when all are done.
        """
        self._waiting = (self._waiting or set(self._weights.values())) - gradients.keys()
        for _ in range(0 if self._waiting else iterations - 1):
            self._schedule.step()
        if self._completed_by(iterations):
            for weight, gradient in gradients.items():
                weight.grad = self._mean(weight, gradient)
            self._clip(list(gradients), norm)
            self._optimizer.step()
            for weight in gradients:
                weight.grad = None
            for kept in self._accumulated.values():
                kept.zero_()
            self._iterations = 0
        else:
            for weight, gradient in gradients.items():
                self._accumulated.setdefault(weight, torch.zeros_like(weight, requires_grad=False)).add_(gradient)
            self._iterations += iterations
        if not self._waiting:
            self._schedule.step()

    def _mean(self, weight: nn.Parameter, gradient: Tensor) -> Tensor:
        """The mean of a gradient and those that were accumulated."""
        many = self._options.accumulate
        if many == 1:
            return gradient
        before = self._accumulated.get(weight)
        return gradient / many if before is None else (before + gradient) / many

    def _clip(self, weights: Sequence[nn.Parameter], norm: float | None) -> None:
        most = self._options.clip_norm
        if most is None:
            return
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        if norm is None:
            norm = float(sum(gradient.double().square().sum() for gradient in gradients)) ** 0.5
        factor = most / (norm + _EPSILON)
        if factor < 1:
            for weight in weights:
                weight.grad = None if weight.grad is None else weight.grad * factor

    def state_of(self, weight: nn.Parameter) -> dict[str, Tensor]:
        """What is kept of a weight, by key."""
        found: dict[str, Tensor] = {}
        for key, value in self._optimizer.state.get(weight, {}).items():
            if isinstance(value, Tensor):
                found[key] = value
            elif isinstance(value, int | float):
                kind = torch.float64 if isinstance(value, float) else torch.int64
                found[key + _NUMBER] = torch.tensor(value, dtype=kind)
        if weight in self._accumulated:
            found[_ACCUMULATED] = self._accumulated[weight]
            found[_ITERATIONS] = torch.tensor(self._iterations)
        return found

    def load(self, weight: nn.Parameter, state: Mapping[str, Tensor]) -> None:
        """Continue with what ``state_of`` returned for a weight."""
        known = dict(state)
        if (accumulated := known.pop(_ACCUMULATED, None)) is not None and self._options.accumulate > 1:
            self._accumulated[weight] = accumulated.to(weight.device, copy=True)
            self._iterations = int(known[_ITERATIONS])
        known.pop(_ITERATIONS, None)
        if known:
            self._optimizer.state[weight] = {
                key.removesuffix(_NUMBER): value.item() if key.endswith(_NUMBER) else _placed(value, weight)
                for key, value in known.items()
            }


def accumulated_iterations(state: Mapping[str, Tensor]) -> int:
    """Of how many iterations the gradients are that a state has accumulated, by ``weight name/key``."""
    return next((int(value) for key, value in state.items() if key.rpartition("/")[2] == _ITERATIONS), 0)


def _placed(value: Tensor, weight: nn.Parameter) -> Tensor:
    """A copy on the weight's device; PyTorch keeps single numbers, such as the number of steps, on the CPU."""
    return value.to(weight.device, copy=True) if value.dim() else value.clone()
