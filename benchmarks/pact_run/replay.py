"""A training in one process, with the very batches that a run on the testbed draws: what it learns does not depend on
where it is trained, so that this tells the losses of schedules that are not run.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.pact_run.data import SAMPLES
from benchmarks.pact_run.network import INPUT_SHAPE
from benchmarks.pact_run.setting import BATCH, LR, MODEL
from palmette.compress.channels import PruningOrigin, pruning_origin
from palmette.compress.pruning import prune
from palmette.runtime.data.batches import Batches
from palmette.zoo.data import DataSplit, Indices, load_data
from palmette.zoo.models import load_network


@dataclass(eq=False)
class Trainee:
    """A network in training, and how many steps it has made."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    origin: PruningOrigin
    seed: int
    pruning: float = 0.0
    steps: int = 0

    def twin(self) -> Trainee:
        """Another that goes on from here."""
        module, optimizer = copy.deepcopy((self.module, self.optimizer))
        return Trainee(module, optimizer, self.origin, self.seed, self.pruning, self.steps)

    def epoch(self, pruning: float, part: DataSplit) -> float:
        """Prune if need be, train for an epoch; the mean loss of its batches."""
        batches, losses = Batches(len(part), BATCH, self.seed), []
        if pruning != self.pruning:
            prune(self.module, part.batch([0, 1])[0], pruning, origin=self.origin, optimizer=self.optimizer)
            self.pruning = pruning
        for _ in range(len(part) // BATCH):
            inputs, labels = part.batch(batches.indices(self.steps))
            loss = nn.functional.cross_entropy(self.module(inputs), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
            self.steps += 1
        return sum(losses) / len(losses)


def fresh(seed: int) -> Trainee:
    """The network before any training."""
    network = load_network(MODEL, seed=seed)
    assert network.module is not None
    example = torch.zeros(2, *network.input_shape)
    optimizer = torch.optim.Adam(network.module.parameters(), lr=LR)
    return Trainee(network.module, optimizer, pruning_origin(network.module, example), seed)


@dataclass(frozen=True, eq=False)
class Kept:
    """Samples that are kept in memory, ready to be trained on."""

    inputs: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index], int(self.labels[index])

    def batch(self, indices: Indices) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some of them."""
        at = torch.as_tensor(indices)
        return self.inputs[at], self.labels[at]


def own_data() -> dict[str, DataSplit]:
    """The samples of each set of nodes."""
    parts = {nodes: load_data(f"benchmarks.pact_run.data:{nodes}", INPUT_SHAPE).train for nodes in SAMPLES}
    return {nodes: Kept(*part.batch(range(len(part)))) for nodes, part in parts.items()}
