"""Knowledge distillation: a smaller network learns the outputs of a larger one (Hinton et al., 2015).

The student is trained on the teacher's outputs, softened by a temperature T, and a little on the labels:

    loss = w · T² · KL(teacher / T ‖ student / T) + (1 − w) · cross entropy with the labels

It starts with the teacher's most important channels, as pruning would leave them, so that one pass over the data
suffices. The teacher's optimizer state is not carried over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from palmette.zoo.capture import LayerChain
from palmette.zoo.data import DataSplit, Indices
from palmette.zoo.freezing import freeze
from palmette.zoo.models import Network, seeded


@dataclass(frozen=True, kw_only=True)
class Distillation:
    """How a student is trained."""

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
    settings: Distillation,
    *,
    frozen: Collection[str] = (),
) -> None:
    """Train a network, in place, on the outputs of another for samples; the same seed gives the same result.

    Weights without ``requires_grad`` and those that are ``frozen``, by their names, stay as they are.
    """
    learner, master = _whole(student).train(), _whole(teacher).eval()
    for layer in student.layers:
        freeze(layer.module, frozen)
    optimizer = torch.optim.Adam([w for w in learner.parameters() if w.requires_grad], lr=settings.lr)
    dtype = next(learner.parameters()).dtype
    with seeded(settings.seed):
        for chosen in _batches(indices, settings):
            inputs, labels = samples.batch(chosen)
            inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
            with torch.no_grad():
                targets = master(inputs)
            optimizer.zero_grad()
            _loss(learner(inputs), targets, labels, settings).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    optimizer.zero_grad()
    learner.train()
    master.train()


def _whole(network: Network) -> LayerChain:
    return LayerChain(layer.module for layer in network.layers)


def _batches(indices: Indices, settings: Distillation) -> Iterator[Tensor]:
    """Full batches, or one with all that there is."""
    numbers = torch.as_tensor(indices)
    for _ in range(settings.epochs):
        order = numbers[torch.randperm(len(numbers))]
        for number in range(max(1, len(order) // settings.batch)):
            yield order[number * settings.batch : (number + 1) * settings.batch]


def _loss(outputs: Tensor, targets: Tensor, labels: Tensor, settings: Distillation) -> Tensor:
    t = settings.temperature
    given, wanted = functional.log_softmax(outputs / t, 1), functional.log_softmax(targets / t, 1)
    soft = functional.kl_div(given, wanted, reduction="batchmean", log_target=True)
    return settings.weight * t * t * soft + (1 - settings.weight) * functional.cross_entropy(outputs, labels)
