"""The state of all optimizers of a node, by the names of the weights: what checkpoints and moves of layers carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from palmette.runtime.worker.optimizers import WeightUpdates

UpdatedWeight = tuple[str, nn.Parameter, WeightUpdates]
"""A weight under one of its names, with its optimizer."""


def optimizer_state(updated: Iterable[UpdatedWeight]) -> dict[str, Tensor]:
    """The state of optimizers by ``weight name/key``."""
    return {
        f"{name}/{key}": value
        for name, weight, optimizer in updated
        for key, value in optimizer.state_of(weight).items()
    }


def load_optimizer_state(updated: Iterable[UpdatedWeight], state: Mapping[str, Tensor]) -> None:
    """Continue from a state that ``optimizer_state`` returned."""
    by_weight: dict[str, dict[str, Tensor]] = {}
    for path, value in state.items():
        name, _, key = path.rpartition("/")
        by_weight.setdefault(name, {})[key] = value
    for name, weight, optimizer in updated:
        if name in by_weight:
            optimizer.load(weight, by_weight[name])
