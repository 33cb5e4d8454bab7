"""Small networks and data for the runtime, a crew of threads over memory, and the one process that they must equal.

``Rig.trained`` runs a phase with one worker a node; ``alone`` and ``grouped`` are plain PyTorch loops, written without
the runtime: over the whole network at once, and over the tree's groups of samples in one process.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load as from_bytes
from torch import Tensor, nn

from palmette.cost.evaluate import Evaluator
from palmette.cost.optimizer import OptimizerCost
from palmette.runtime.data.base import SampleReader, SampleSource
from palmette.runtime.data.batches import Batches
from palmette.runtime.data.kept_samples import SampleStore
from palmette.runtime.data.samples import SourceGroup, StepBatches
from palmette.runtime.data.sources import DataDescription, SourceSamples
from palmette.runtime.engines.threads import ThreadCrew
from palmette.runtime.options import Options, TrainedIterations
from palmette.runtime.phase_programs import PhasePart, parts_of
from palmette.runtime.program import Program, numbers_of
from palmette.runtime.sync.step import StepWorkerSide
from palmette.runtime.training.launch import real_layers
from palmette.runtime.transports.memory import MemoryEndpoint, MemoryTransport
from palmette.runtime.worker.commands import Execute, GetState, IterationDone, Ready, StateReply
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.runtime.worker.setup import Setup, held_layers
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from palmette.zoo.capture import TiedWeight
from palmette.zoo.data.custom_tensors import TensorDecoder
from palmette.zoo.data.raw_bytes import to_bytes
from palmette.zoo.recipes.objective import TrainingObjective, classification
from tests.runtime.plain import PlainUpdates

PATIENCE_S = 60.0
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
Weights = dict[str, Tensor]


class Toy:
    """Made-up samples in memory, as a part of a data set."""

    def __init__(
        self, shape: tuple[int, ...], classes: int, many: int = 60, dtype: torch.dtype = torch.float64, seed: int = 1
    ):
        chance = torch.Generator().manual_seed(seed)
        self.inputs = torch.randn(many, *shape, generator=chance, dtype=torch.float64).to(dtype)
        self.targets = torch.randint(0, classes, (many,), generator=chance)
        self.stores_labels = False

    @property
    def decoder(self) -> TensorDecoder:
        return TensorDecoder(tuple(self.inputs.shape[1:]), self.inputs.dtype, self.inputs.dtype)

    @property
    def sample_bytes(self) -> float:
        return float(self.inputs[0].numel() * self.inputs.element_size())

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.inputs[index], int(self.targets[index])

    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return (self[k] for k in range(len(self)))

    def batch(self, indices: object) -> tuple[Tensor, Tensor]:
        at = torch.as_tensor(indices)
        return self.inputs[at], self.targets[at]

    def stored(self, indices: object) -> list[bytes]:
        return [to_bytes(each) for each in self.inputs[torch.as_tensor(indices)]]

    def labels(self, indices: object) -> Tensor:
        return self.targets[torch.as_tensor(indices)]

    @property
    def description(self) -> DataDescription:
        return DataDescription("toy", len(self), self.decoder)


@dataclass(frozen=True)
class ToyData:
    """The data of a run, as a worker finds it."""

    part: Toy
    seed: int

    def samples(self, program: Program) -> SampleReader:
        sources = range(len(program.phase.sources))
        rule = StepBatches(program.phase, [SourceGroup(sources, len(self.part))], self.seed)
        return SourceSamples(rule, [self.part.description for _ in sources], lambda _: self.part, self.seed)


@dataclass
class Rig:
    """Layers and the data they are trained on."""

    layers: list[nn.Module]
    shape: tuple[int, ...]
    classes: int = 3
    options: Options = field(default_factory=lambda: Options(dtype="float64", lr=0.05))
    inputs: torch.dtype | None = None
    folder: Path | None = None
    """Where nodes keep samples."""
    iterations: int = 1
    """How long the phase is in which samples are uploaded."""
    bundles: Mapping[str, Any] = field(default_factory=dict)
    """What a worker is told about layers with several tensors: ``inputs``, ``input_names``, ``outputs``."""
    ties: Sequence[TiedWeight] = ()
    """Weights that several layers use."""
    norms: ClassVar[Mapping[int, Sequence[int]]] = {}
    """The channels of the batch norms of layers that have others than their modules tell."""

    @cached_property
    def data(self) -> Toy:
        return Toy(self.shape, self.classes, dtype=self.dtype)

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.options.dtype)
        return found

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of one sample: the input, then each layer's output."""
        shapes, values = [self.shape], torch.zeros(2, *self.shape, dtype=self.dtype)
        for layer in self.fresh():
            values = layer(values)
            shapes.append(tuple(values.shape[1:]))
        return shapes

    @property
    def stored_bytes(self) -> float:
        """The size of a stored sample."""
        return self.data.sample_bytes

    def source(self) -> SampleSource:
        """Where workers find their samples."""
        return ToyData(self.data, self.options.seed)

    def transport(self) -> MemoryTransport:
        """What carries messages."""
        return MemoryTransport()

    def fresh(self) -> list[nn.Module]:
        """The layers with the weights of the beginning; parameters are named by the layer's number."""
        made: list[nn.Module] = []
        for number, layer in enumerate(self.layers, 1):
            named = nn.Sequential()
            named.add_module(f"l{number}", copy.deepcopy(layer).to(self.dtype))
            made.append(named)
        return made

    def evaluator(self, cluster: Cluster) -> Evaluator:
        """Sizes as they are, times of nothing."""
        size = torch.empty((), dtype=self.dtype).element_size()
        taken = float(torch.Size(self.shape).numel() * size)
        many = len(self.layers)
        zero = {"forward_s": [0.0] * many, "backward_s": [0.0] * many, "update_s": [0.0] * many}
        listed = [
            {
                "name": f"l{k}",
                "parameter_bytes": float(sum(w.numel() for w in layer.parameters()) * size),
                "output_bytes": float(torch.Size(shape).numel() * size),
                "batch_norm_channels": self.norms.get(k, own_norms(layer)),
                "output_channels": shape[0],
            }
            for k, (layer, shape) in enumerate(zip(self.layers, self.shapes[1:], strict=True), 1)
        ]
        nodes = dict.fromkeys(cluster.nodes, zero)
        fields = {"model": "toy", "input_bytes": taken, "layers": listed, "nodes": nodes}
        fields["sample_bytes"] = self.stored_bytes
        return Evaluator(validated(Profile, fields), cluster)

    @property
    def objective(self) -> TrainingObjective:
        return classification(self.shapes[-1][0])

    def programs(self, phase: Phase, cluster: Cluster) -> dict[str, Program]:
        """Of an iteration."""
        return dict(self.parts(phase, cluster)[0].programs)

    def parts(self, phase: Phase, cluster: Cluster) -> list[PhasePart]:
        """An iteration, and an update where that is apart."""
        return parts_of(phase, self.optimizing(cluster))

    def optimizing(self, cluster: Cluster) -> Evaluator:
        """The evaluator that knows what the optimizer exchanges."""
        known = self.evaluator(cluster)
        known.optimizer = OptimizerCost(
            clips_norm=self.options.clip_norm is not None,
            divisor_varies=self.objective.loss.per_sample is None,
            accumulate=self.options.accumulate,
        )
        return known

    @contextmanager
    def crew(
        self, phase: Phase, cluster: Cluster, iterations: int = 1
    ) -> Iterator[tuple[ThreadCrew, dict[str, Program]]]:
        """A worker in a thread for each node, ready to go."""
        parts, endpoint = self.parts(phase, cluster), MemoryEndpoint(self.transport())
        layers = self.fresh()
        own = {node: [part.programs.get(node) for part in parts] for part in parts for node in part.programs}
        held = {node: {n for each in programs if each for n in held_layers(each)} for node, programs in own.items()}
        setups = {
            node: Setup(
                node=node,
                endpoint=endpoint,
                programs=programs,
                layers={n: layers[n - 1] for n in real_layers(held[node], self.ties, len(layers))},
                shapes=self.shapes,
                input_dtype=self.inputs or self.dtype,
                options=replace(self.options, span=TrainedIterations(0, iterations)),
                side=StepWorkerSide,
                objective=self.objective,
                source=self.source(),
                cpu_limit=cluster.nodes[node].limits.cpu_share,
                store=SampleStore(self.folder / node) if self.folder else None,
                ties=self.ties,
                **self.bundles,
            )
            for node, programs in own.items()
        }
        crew = ThreadCrew(setups)
        try:
            for _ in setups:
                assert isinstance(heard(crew)[1], Ready)
            yield crew, dict(parts[0].programs)
        finally:
            crew.close()

    def trained(
        self, phase: Phase, cluster: Cluster, iterations: int = 20, exchange_after: Sequence[int] = ()
    ) -> tuple[list[float], dict[str, Weights]]:
        """The losses, and the weights and buffers that each node holds in the end.

        Gradients that accumulate are also exchanged after some iterations without an update, as for a checkpoint.
        """
        updating = [part.programs for part in self.parts(phase, cluster)[1:]]
        with self.crew(phase, cluster, iterations) as (crew, programs):
            losses = []
            for number in range(iterations):
                for node in programs:
                    crew.send(node, Execute(0, number, number, iterations - 1))
                losses.append(sum(done(crew).loss for _ in programs))
                if (number + 1) % self.options.accumulate == 0 or number in exchange_after:
                    _update(crew, updating, number)
            return losses, {node: given(crew, node, own_layers(program)) for node, program in programs.items()}

    def alone(self, batch: int, iterations: int = 20) -> tuple[list[float], Weights]:
        """One process, the whole network, the whole batch."""
        return self._loop(batch, iterations, self._whole_loss)

    def grouped(self, phase: Phase, iterations: int = 20) -> tuple[list[float], Weights]:
        """One process that passes the samples through the network in the tree's groups."""

        def loss(layers: list[nn.Module], inputs: Tensor, labels: Tensor, number: int) -> Tensor:
            return Groups(self, phase, layers, labels, number).loss(inputs)

        return self._loop(phase.batch, iterations, loss)

    def _whole_loss(self, layers: list[nn.Module], inputs: Tensor, labels: Tensor, number: int) -> Tensor:
        with Drawing(Draw(self.options.seed, number, range(len(labels)))):
            return self.mean_loss(nn.Sequential(*layers)(inputs), labels)

    def mean_loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of a whole batch in one process."""
        return nn.functional.cross_entropy(outputs, labels)

    def _loop(
        self, batch: int, iterations: int, loss: Callable[[list[nn.Module], Tensor, Tensor, int], Tensor]
    ) -> tuple[list[float], Weights]:
        layers = [replace_dropout(layer, str(number)) for number, layer in enumerate(self.fresh(), 1)]
        named = [(name, weight) for layer in layers for name, weight in layer.named_parameters()]
        trained = {name: w for name, w in named if name not in self.options.freeze and w.requires_grad}
        updates = PlainUpdates(trained, self.options, iterations)
        batches, losses = Batches(len(self.data), batch, self.options.seed), []
        for number in range(iterations):
            inputs, labels = self.data.batch(batches.indices(number))
            lost = loss(layers, inputs, labels, number)
            updates.step(lost)
            losses.append(lost.item())
        return losses, {name: value for layer in layers for name, value in layer.state_dict().items()}


class Groups:
    """One iteration of a tree in one process: every instance sees its own samples, all share the weights."""

    def __init__(self, rig: Rig, phase: Phase, layers: list[nn.Module], labels: Tensor, number: int) -> None:
        self.rig, self.phase, self.layers, self.labels, self.number = rig, phase, layers, labels, number
        self.given: list[tuple[Tensor, list[int]]] = []

    def loss(self, inputs: Tensor) -> Tensor:
        ends = [0]
        for source in self.phase.sources:
            ends.append(ends[-1] + source.samples)
        self.given = [(inputs[a:b], list(range(a, b))) for a, b in pairwise(ends)]
        roots = [k for k, instance in enumerate(self.phase.instances) if instance.into is None]
        total = torch.zeros((), dtype=self.rig.dtype)
        for k in roots:
            outputs, places = self.output(k)
            total = total + nn.functional.cross_entropy(outputs, self.labels[places], reduction="sum")
        return total / self.phase.batch

    def output(self, k: int) -> tuple[Tensor, list[int]]:
        instance = self.phase.instances[k]
        parts = [
            part for part, source in zip(self.given, self.phase.sources, strict=True) if source.into == instance.id
        ]
        before = [j for j, other in enumerate(self.phase.instances) if other.into == instance.id]
        parts += [self.output(j) for j in sorted(before, key=lambda j: self.phase.instances[j].layers[0])]
        values = torch.cat([part for part, _ in parts])
        places = [endpoint for _, more in parts for endpoint in more]
        with Drawing(Draw(self.rig.options.seed, self.number, places)):
            for n in range(instance.layers[0], instance.layers[1] + 1):
                values = self.passed(k, n, values)
        return values, places

    def passed(self, k: int, n: int, values: Tensor) -> Tensor:
        """Through a layer; what batch norm keeps is that of the first instance in the plan that holds the layer."""
        first = next(j for j, i in enumerate(self.phase.instances) if i.layers[0] <= n <= i.layers[1])
        layer = self.layers[n - 1]
        if k == first:
            passed: Tensor = layer(values)
            return passed
        own = {name: value.clone() for name, value in layer.named_buffers()}
        return torch.func.functional_call(layer, own, (values,))


def _update(crew: ThreadCrew, updating: Sequence[Mapping[str, Program]], number: int) -> None:
    """Have gradients exchanged after an iteration, where that is no part of it."""
    for programs in updating:
        for node in programs:
            crew.send(node, Execute(1, number, number))
        for _ in programs:
            done(crew)


def own_norms(layer: nn.Module) -> list[int]:
    """The channels of a layer's batch norms, as its modules tell."""
    return [part.num_features for part in layer.modules() if isinstance(part, BATCH_NORMS)]


def own_layers(program: Program) -> list[int]:
    """The layers of a node's instances, without those whose gradients only meet there."""
    return sorted(set(numbers_of(program.phase.instances[k].layers for k in program.own)))


def optimizer_of(options: Options, weights: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """PyTorch's own, with the settings that users know."""
    return PlainUpdates({str(k): weight for k, weight in enumerate(weights)}, options, 1).optimizer


def heard(crew: ThreadCrew) -> tuple[str, object]:
    found = crew.receive(PATIENCE_S)
    assert found is not None, "the workers have nothing more to say"
    return found


def done(crew: ThreadCrew) -> IterationDone:
    event = heard(crew)[1]
    assert isinstance(event, IterationDone)
    return event


def given(crew: ThreadCrew, node: str, layers: Sequence[int]) -> Weights:
    """The weights and buffers of a node's layers."""
    crew.send(node, GetState(tuple(layers)))
    event = heard(crew)[1]
    assert isinstance(event, StateReply)
    return from_bytes(event.weights)


def off(found: Weights, expected: Weights) -> float:
    """The largest elementwise difference."""
    return max((float((found[name] - expected[name]).abs().max()) for name in found if found[name].numel()), default=0)


def relatively_off(found: Weights, expected: Weights) -> float:
    """The largest relative difference of a tensor, in norm."""
    floats = [name for name in found if found[name].is_floating_point() and found[name].numel()]
    return max(
        (float((found[n] - expected[n]).norm() / expected[n].norm().clamp(min=1e-12)) for n in floats), default=0
    )


_KINDS: list[Callable[[int, int], nn.Module]] = [
    lambda a, b: nn.Sequential(nn.Linear(a, b), nn.Tanh()),
    lambda a, b: nn.Linear(a, b, bias=False),
    lambda a, b: nn.Sequential(nn.Dropout(0.3), nn.Linear(a, b), nn.LayerNorm(b, eps=0.1), nn.Tanh()),
    lambda _a, _b: nn.Sequential(nn.Tanh(), nn.Dropout(0.4)),
    lambda _a, _b: nn.Softplus(),
]


def random_layers(draw: random.Random, many: int, inputs: int = 5, classes: int = 3) -> list[nn.Module]:
    """Layers on vectors: with weights, without, with dropout, with several operations.

    None of them makes a rounding error much larger, as a normalisation of two nearly equal numbers would.
    """
    with torch.random.fork_rng():
        torch.manual_seed(draw.randrange(1 << 30))
        wide, layers = inputs, []
        for number in range(many):
            ends = number == many - 1
            out = classes if ends else draw.randint(2, 6)
            made = draw.choice(_KINDS[:3] if ends else _KINDS)(wide, out)
            layers.append(made)
            wide = out if any(True for _ in made.parameters()) else wide
        return layers
