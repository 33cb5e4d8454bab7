"""A trial leaves a module as it was, with the hooks that it had."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from palmette.zoo.capture.trial_runs import preserve_state
from palmette.zoo.models import load_network


class Collecting(nn.Module):
    """Collects what its layers return by hooks that it sets once, as modules of transformers do."""

    input_shape = (4,)

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)
        self.seen: list[Tensor] = []

    def forward(self, values: Tensor) -> Tensor:
        if not hasattr(self, "collects"):
            self.collects = True
            for layer in (self.one, self.two):
                layer.register_forward_hook(lambda _module, _inputs, output: self.seen.append(output))
        self.seen.clear()
        self.two(torch.tanh(self.one(values)))
        first, second = self.seen
        return first + second


def test_hooks_of_a_trial_are_removed_and_others_kept() -> None:
    module, called = Collecting(), list[int]()
    module.one.register_forward_pre_hook(lambda *_: called.append(1))
    for _ in range(2):
        with preserve_state(module):
            module(torch.rand(2, 4))
    assert called == [1, 1]
    assert len(module.one._forward_hooks) == 0
    assert len(module.one._forward_pre_hooks) == 1


def test_a_network_that_collects_by_hooks_is_loaded() -> None:
    network = load_network(Collecting(), seed=0)
    assert network.layers
