"""Which numbers of a tensor pruning kept, so that whatever belongs to a weight can be pruned the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from palmette.compress.error_feedback import is_of_exchange


@dataclass(frozen=True, eq=False)
class KeptIndices:
    """For a tensor that shrank: the shape it had, the shape it has, and the flat indices of what is left."""

    before: torch.Size
    after: torch.Size
    index: Tensor = field(repr=False)

    def taken(self, values: Tensor) -> Tensor:
        """What is left of values that have the shape before; of others, all."""
        if values.shape != self.before:
            return values
        return values.detach().reshape(-1)[self.index.to(values.device)].reshape(self.after)


def carried(state: Mapping[str, Tensor], places: Mapping[str, KeptIndices]) -> dict[str, Tensor]:
    """An optimizer's state by ``weight's name/key`` after weights shrank; that of the other weights is unchanged.

    Sums of a weight's rows and columns, as Adafactor has them, cannot be shrunk: such a weight begins anew. What error
    feedback has left out shrinks with the weight; the basis of a low rank is found again.
    """
    kept, anew = {}, set()
    for name, value in state.items():
        weight = name.rpartition("/")[0]
        found = places.get(weight)
        fits = found is None or value.numel() <= 1 or value.shape == found.before
        if fits or not is_of_exchange(name):
            kept[name] = value if found is None else found.taken(value)
            anew |= set() if fits else {weight}
    return {name: value for name, value in kept.items() if is_of_exchange(name) or name.rpartition("/")[0] not in anew}


def carry_over(
    optimizer: torch.optim.Optimizer, shrunk: Mapping[nn.Parameter, tuple[nn.Parameter, KeptIndices]]
) -> None:
    """Let an optimizer continue with weights that replaced others, with its state of them."""
    for group in optimizer.param_groups:
        group["params"] = [shrunk[w][0] if w in shrunk else w for w in group["params"]]
    for old, (new, places) in shrunk.items():
        if old in optimizer.state:
            kept = optimizer.state.pop(old)
            optimizer.state[new] = {
                key: places.taken(value) if isinstance(value, Tensor) else value for key, value in kept.items()
            }
