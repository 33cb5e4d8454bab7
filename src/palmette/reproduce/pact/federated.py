"""PACT's Fig. 2 by real training: accuracy over time, by when the network is pruned, by how much, and who joins.

Section II: five gold nodes with 8,000 images each train by federated averaging. After K₁ epochs a fraction F of the
parameters is pruned, and two more nodes join: silver ones, half as fast, with 2,500 images each, or bronze ones, a
third as fast, with 750. Here every node is really trained, one after the other in this process, on a part of the data
that is as large compared with the others. An epoch takes as long as its slowest node: the CPU time that the node's part
took here, times how much slower it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from time import process_time

import torch
from torch import Tensor

from palmette.compress.channels import PruningOrigin, pruning_origin
from palmette.compress.pruning import prune
from palmette.measure.curves.node_sets import NodeSetData
from palmette.measure.curves.trainer import CurveRecipe, new_trainer
from palmette.zoo.data import DataSet, DataSplit, load_data
from palmette.zoo.models import seeded

IMAGES = {"gold": 8000, "silver": 2500, "bronze": 750}
MANY = {"gold": 5, "silver": 2, "bronze": 2}
SLOWER = {"gold": 1.0, "silver": 2.0, "bronze": 3.0}
MAX_SAMPLES = 8000
"""Of the data that all nodes together own; more would only take longer."""
_CHUNK = 256


@dataclass(frozen=True, kw_only=True)
class FederatedGrid:
    """Fig. 2's trainings: K₁, F, and the epochs of each."""

    k1: tuple[int, int]
    pruned: tuple[float, float]
    epochs: int


FULL = FederatedGrid(k1=(5, 25), pruned=(0.5, 0.9), epochs=40)
QUICK = FederatedGrid(k1=(1, 4), pruned=(0.5, 0.9), epochs=6)


@dataclass
class FederatedCurve:
    """Accuracy and time after each epoch, and the CPU seconds of all nodes together."""

    accuracy: list[float] = field(default_factory=list)
    time_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0

    def copy(self) -> FederatedCurve:
        """Another that goes on from here."""
        return FederatedCurve([*self.accuracy], [*self.time_s], self.cpu_s)

    def to_json(self) -> str:
        """The curve as text."""
        return json.dumps(asdict(self))

    @classmethod
    def parsed(cls, text: str) -> FederatedCurve:
        """The curve of a text.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        data = json.loads(text)
        accuracy, time_s = ([float(each) for each in data[name]] for name in ("accuracy", "time_s"))
        if len(accuracy) != len(time_s):
            raise ValueError(f"{len(accuracy)} accuracies at {len(time_s)} times")
        return cls(accuracy, time_s, float(data["cpu_s"]))


class Federation:
    """Nodes that train one network by federated averaging, weighted by their samples."""

    def __init__(self, recipe: CurveRecipe, seed: int = 0) -> None:
        data = load_data(recipe.data, recipe.network().input_shape)
        first = new_trainer(recipe, seed)
        self.origin: PruningOrigin = pruning_origin(first.module, first.example)
        self.parts, self.held_out = node_parts(data, seed), _all(data.held_out)
        self.kinds = ["gold"] * MANY["gold"]
        self.trainers = [first.clone() for _ in self.kinds]

    def state_bytes(self) -> bytes:
        """The network after an average, with one node's optimizer: all that those who join begin with."""
        return self.trainers[0].state_bytes()

    def load(self, saved: bytes) -> None:
        """Continue from such a state."""
        for trainer in self.trainers:
            trainer.load(saved)

    def joined(self, kind: str, pruned: float) -> Federation:
        """The same network, pruned, with two more nodes; these nodes stay as they are."""
        other: Federation = object.__new__(Federation)
        other.__dict__ |= self.__dict__
        smaller = self.trainers[0].clone()
        prune(smaller.module, smaller.example, pruned, origin=self.origin, optimizer=smaller.optimizer)
        other.kinds = [*self.kinds, *[kind] * MANY[kind]]
        other.trainers = [smaller.clone() for _ in other.kinds]
        return other

    def train(self, so_far: FederatedCurve, epochs: int) -> Iterator[None]:
        """Train on, epoch by epoch; each is added to what there is so far."""
        for _ in range(epochs):
            slowest_s, seen = 0.0, dict.fromkeys(MANY, 0)
            for kind, trainer in zip(self.kinds, self.trainers, strict=True):
                began = process_time()
                trainer.train(self.parts[kind][seen[kind]], 1, len(so_far.accuracy))
                own_s = SLOWER[kind] * (process_time() - began)
                seen[kind] += 1
                slowest_s, so_far.cpu_s = max(slowest_s, own_s), so_far.cpu_s + own_s
            self._average()
            so_far.accuracy.append(self.accuracy())
            so_far.time_s.append((so_far.time_s or [0.0])[-1] + slowest_s)
            yield

    def accuracy(self) -> float:
        """The fraction of held-out samples that are classified correctly."""
        inputs, labels = self.held_out
        module = self.trainers[0].module.eval()
        parts = zip(torch.split(inputs, _CHUNK), torch.split(labels, _CHUNK), strict=True)
        right = 0
        with torch.no_grad():
            for some, truth in parts:
                right += int(module(some).argmax(1).eq(truth).sum())
        return right / len(labels)

    def _average(self) -> None:
        samples = [IMAGES[kind] for kind in self.kinds]
        states = [trainer.module.state_dict() for trainer in self.trainers]
        mean = {name: _weighted([state[name] for state in states], samples) for name in states[0]}
        for trainer in self.trainers:
            trainer.module.load_state_dict(mean)


def node_parts(data: DataSet, seed: int) -> dict[str, list[NodeSetData]]:
    """The samples of every node; none belongs to two."""
    with seeded(seed):
        order = torch.randperm(len(data.train)).tolist()
    unit = min(len(order), MAX_SAMPLES) / sum(IMAGES[kind] * many for kind, many in MANY.items())
    found: dict[str, list[NodeSetData]] = {kind: [] for kind in MANY}
    for kind, many in MANY.items():
        for _ in range(many):
            size = max(2, int(unit * IMAGES[kind]))
            inputs, labels = data.train.batch(order[:size])
            found[kind].append(NodeSetData(inputs, labels, len(set(labels.tolist()))))
            order = order[size:]
    return found


def _all(part: DataSplit) -> tuple[Tensor, Tensor]:
    inputs, labels = part.batch(range(len(part)))
    return inputs, labels


def _weighted(values: Sequence[Tensor], samples: Sequence[int]) -> Tensor:
    if not values[0].is_floating_point():
        return values[0]
    parts = [value * (many / sum(samples)) for value, many in zip(values, samples, strict=True)]
    return torch.stack(parts).sum(0)
