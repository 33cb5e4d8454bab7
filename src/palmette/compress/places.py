"""Where each number of a smaller tensor stood in the larger one, so that all that goes with a weight can follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Places:
    """For a tensor that shrank: the shape it had, the shape it has, and the flat places of what is left."""

    before: torch.Size
    after: torch.Size
    index: Tensor = field(repr=False)

    def taken(self, values: Tensor) -> Tensor:
        """What is left of values that have the shape before; of others, all."""
        if values.shape != self.before:
            return values
        return values.detach().reshape(-1)[self.index.to(values.device)].reshape(self.after)


def carried(state: Mapping[str, Tensor], places: Mapping[str, Places]) -> dict[str, Tensor]:
    """An optimizer's state by ``weight's name/key`` after weights shrank; that of the others is the very same."""
    kept = {}
    for name, value in state.items():
        found = places.get(name.rpartition("/")[0])
        kept[name] = value if found is None else found.taken(value)
    return kept


def carry_over(optimizer: torch.optim.Optimizer, shrunk: Mapping[nn.Parameter, tuple[nn.Parameter, Places]]) -> None:
    """Let an optimizer go on with the weights that took the place of others, with what it keeps for them."""
    for group in optimizer.param_groups:
        group["params"] = [shrunk[w][0] if w in shrunk else w for w in group["params"]]
    for old, (new, places) in shrunk.items():
        if old in optimizer.state:
            kept = optimizer.state.pop(old)
            optimizer.state[new] = {
                key: places.taken(value) if isinstance(value, Tensor) else value for key, value in kept.items()
            }
