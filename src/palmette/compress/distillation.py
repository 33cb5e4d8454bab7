"""Knowledge distillation: a smaller network learns to say what a larger one says (Hinton et al., 2015).

The student is trained on the teacher's answers, softened by a temperature T, and a little on the labels:

    loss = w · T² · KL(teacher / T ‖ student / T) + (1 − w) · cross entropy with the labels

It starts with the teacher's own channels that matter most, as pruning would leave them, so that one pass over the data
is worth something. What an optimizer kept for the teacher means nothing for it and is not carried over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmette.zoo.data import DataSplit, Indices
from palmette.zoo.freezing import freeze
from palmette.zoo.models import Network, seeded


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """How a student is taught."""

    epochs: int = 1
    batch: int = 32
    lr: float = 1e-3
    temperature: float = 4.0
    weight: float = 0.9
    seed: int = 0


def distill(
    student: Network,
    teacher: Network,
    samples: DataSplit,
    indices: Indices,
    how: Distillation,
    *,
    frozen: Collection[str] = (),
) -> None:
    """Teach a network, in place, what another says of samples; by the same seed always the same.

    Weights without ``requires_grad`` and those that are ``frozen``, by their names, stay as they are.
    """
    learner, master = _whole(student).train(), _whole(teacher).eval()
    for layer in student.layers:
        freeze(layer.module, frozen)
    optimizer = torch.optim.Adam([w for w in learner.parameters() if w.requires_grad], lr=how.lr)
    dtype = next(learner.parameters()).dtype
    with seeded(how.seed):
        for chosen in _batches(indices, how):
            inputs, labels = samples.batch(chosen)
            inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
            with torch.no_grad():
                taught = master(inputs)
            optimizer.zero_grad()
            _loss(learner(inputs), taught, labels, how).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    optimizer.zero_grad()
    learner.train()
    master.train()


def _whole(network: Network) -> nn.Sequential:
    return nn.Sequential(*[layer.module for layer in network.layers])


def _batches(indices: Indices, how: Distillation) -> Iterator[Tensor]:
    """Full batches, or one with all that there is."""
    numbers = torch.as_tensor(indices)
    for _ in range(how.epochs):
        order = numbers[torch.randperm(len(numbers))]
        for number in range(max(1, len(order) // how.batch)):
            yield order[number * how.batch : (number + 1) * how.batch]


def _loss(said: Tensor, taught: Tensor, labels: Tensor, how: Distillation) -> Tensor:
    t = how.temperature
    given, wanted = functional.log_softmax(said / t, 1), functional.log_softmax(taught / t, 1)
    soft = functional.kl_div(given, wanted, reduction="batchmean", log_target=True)
    return how.weight * t * t * soft + (1 - how.weight) * functional.cross_entropy(said, labels)
