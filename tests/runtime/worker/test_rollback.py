"""Workers can go back to the iteration before, whoever has updated already."""

from __future__ import annotations

import torch
from torch import Tensor

from palmette.runtime.worker.rollback import RollbackCopy


class Layer:
    """Weights that training changes, and what an optimizer keeps for them once it has stepped."""

    def __init__(self) -> None:
        self.weights, self.optimizer = {"w": torch.zeros(2)}, dict[str, Tensor]()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return self.weights, self.optimizer

    def step(self) -> None:
        self.weights["w"] += 1
        self.optimizer.setdefault("w/momentum", torch.zeros(2)).add_(1)


def kept(keepsake: RollbackCopy, after: int) -> tuple[list[float], list[float] | None]:
    weights, optimizer = keepsake.after(after)
    return weights["w"].tolist(), optimizer["w/momentum"].tolist() if "w/momentum" in optimizer else None


def test_whoever_has_not_begun_gives_what_it_has() -> None:
    layer = Layer()
    layer.step()
    assert kept(RollbackCopy(layer.state), 0) == ([1, 1], [1, 1])


def test_whoever_has_begun_gives_what_it_had_before() -> None:
    layer = Layer()
    keepsake = RollbackCopy(layer.state)
    for iteration in range(3):
        keepsake.begin(iteration)
        layer.step()
        keepsake.begin(iteration)  # a second instance of the node, late
    assert kept(keepsake, 1) == ([2, 2], [2, 2])
    assert kept(keepsake, 2) == ([3, 3], [3, 3])


def test_the_first_iteration_goes_back_to_the_beginning() -> None:
    layer = Layer()
    keepsake = RollbackCopy(layer.state)
    keepsake.begin(7)
    layer.step()
    assert kept(keepsake, 6) == ([0, 0], None)
