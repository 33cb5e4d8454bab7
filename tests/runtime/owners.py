"""A rig whose nodes have data of their own, which writes down every message; and the one process it must equal."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from palmette.runtime.data.base import SampleReader
from palmette.runtime.data.batches import Batches
from palmette.runtime.data.samples import SourceGroup, StepBatches
from palmette.runtime.data.sources import SourceSamples
from palmette.runtime.options import Options
from palmette.runtime.program import Channel, Program
from palmette.runtime.transports.memory import MemoryTransport
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from tests.cost.random_trees import random_cluster, random_phase
from tests.runtime.rig import Rig, Toy, Weights, optimizer_of, random_layers


class Recording(MemoryTransport):
    """Writes down every message, with who sent it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, Tensor]] = []
        self.sizes: dict[Channel, int] = {}

    def send(self, channel: Channel, message: Tensor, *, sized: bool = True, background: bool = False) -> None:
        self.sent.append((channel.sender, message.clone()))
        self.sizes[channel] = message.numel()
        super().send(channel, message, sized=sized, background=background)


@dataclass(frozen=True)
class OwnToys:
    """The data of each node, as its worker finds it."""

    parts: Mapping[str, Toy]
    seed: int
    iterations: int = 1

    def samples(self, program: Program) -> SampleReader:
        sources = program.phase.sources
        nodes = dict.fromkeys(source.node for source in sources)
        groups = [
            SourceGroup([k for k, source in enumerate(sources) if source.node == node], len(self.parts[node]))
            for node in nodes
        ]
        described = [replace(self.parts[source.node].description, name=source.node) for source in sources]
        rule = StepBatches(program.phase, groups, self.seed)
        return SourceSamples(rule, described, self.parts.__getitem__, self.seed, iterations=self.iterations)


@dataclass
class Owners(Rig):
    """Layers, and the data of each node."""

    owned: Mapping[str, Toy] = field(default_factory=dict)
    wire: Recording = field(default_factory=Recording)

    @property
    def stored_bytes(self) -> float:
        return next(iter(self.owned.values())).sample_bytes

    def source(self) -> OwnToys:
        return OwnToys(self.owned, self.options.seed, self.iterations)

    def transport(self) -> Recording:
        return self.wire

    def drawn(self, phase: Phase, number: int) -> tuple[Tensor, Tensor]:
        """The samples of an iteration in the plan's order: each node goes through its own data, pass by pass."""
        many: dict[str, int] = {}
        for source in phase.sources:
            many[source.node] = many.get(source.node, 0) + source.samples
        left = {
            node: Batches(len(self.owned[node]), each, self.options.seed).indices(number).tolist()
            for node, each in many.items()
        }
        found = []
        for source in phase.sources:
            taken, left[source.node] = left[source.node][: source.samples], left[source.node][source.samples :]
            found.append(self.owned[source.node].batch(taken))
        return torch.cat([inputs for inputs, _ in found]), torch.cat([labels for _, labels in found])

    def alone_with(self, phase: Phase, iterations: int) -> tuple[list[float], Weights]:
        """One process that draws the same samples."""
        layers = [replace_dropout(layer, str(number)) for number, layer in enumerate(self.fresh(), 1)]
        whole, losses = nn.Sequential(*layers), []
        weights = list(whole.parameters())
        optimizer = optimizer_of(self.options, weights)
        for number in range(iterations):
            inputs, labels = self.drawn(phase, number)
            with Drawing(Draw(self.options.seed, number, range(len(labels)))):
                loss = nn.functional.cross_entropy(whole(inputs), labels)
            optimizer.zero_grad()
            if weights:
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        return losses, {name: value for layer in layers for name, value in layer.state_dict().items()}


CLASSES = 60


def random_owners(seed: int, *, private: bool = False) -> tuple[Owners, Phase, Cluster]:
    """Random trees on nodes with data of their own; ``private``: every instance that takes samples is with them.

    Labels run from 1 to 59, as numbers that a message has only where it carries labels.
    """
    draw = random.Random(seed)
    many = draw.randint(2, 6)
    known = random_cluster(draw, [f"n{k}" for k in range(draw.randint(2, 5))])
    fields = random_phase(draw, known, many).model_dump()
    for each in fields["instances"]:
        each["codec"] = "none"
    if private:
        places = {each["id"]: each["node"] for each in fields["instances"]}
        for each in fields["sources"]:
            each["node"] = places[each["into"]]
    options = Options(dtype="float64", lr=0.05, seed=draw.randint(0, 9))
    toys = {name: Toy((5,), CLASSES - 1, draw.choice([7, 20, 45]), seed=k) for k, name in enumerate(known.nodes)}
    for toy in toys.values():
        toy.targets += 1
    layers = random_layers(draw, many, classes=CLASSES)
    rig = Owners(layers, (5,), classes=CLASSES, options=replace(options), owned=toys)
    return rig, validated(Phase, fields), known
