"""Any module on nodes of its own, and the plain PyTorch loop that it must equal."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmette.cost.evaluate import Evaluator
from palmette.measure.contexts import no_progress
from palmette.measure.layer_sizes import input_bytes, layer_sizes, layer_ties
from palmette.runtime.data.batches import Batches
from palmette.runtime.data.sources import DataDescription
from palmette.runtime.options import Dtype, Options
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.spec.profile import Layer, Profile
from palmette.zoo.capture import TensorSpec, as_bundle, tied_weights
from palmette.zoo.capture.bundle import Example, module_input, plain_structure
from palmette.zoo.data.item_format import class_format
from palmette.zoo.models import network_from_module
from palmette.zoo.recipes.loss import SplittableLoss
from palmette.zoo.recipes.objective import TrainingObjective
from tests.cost.small import cluster, instance, link, node, phase, source
from tests.runtime.owners import Recording
from tests.runtime.rig import Rig, Toy, Weights

SAMPLES, BATCH = 24, 6
CLUSTER = cluster(link("a", "b"), link("b", "c"), a=node(SAMPLES), b=node(), c=node())


class FlatSamples:
    """Samples of several tensors, each stored as one row of numbers."""

    def __init__(self, specs: Sequence[TensorSpec], names: Sequence[str]) -> None:
        self.specs, self.names = specs, names

    def decode(self, stored: Sequence[bytes], seeds: object = None) -> Any:
        rows = torch.stack([torch.frombuffer(bytearray(each), dtype=torch.float64) for each in stored])
        return self.parts(rows)

    def parts(self, rows: Tensor) -> Any:
        columns = torch.split(rows, [torch.Size(spec.shape).numel() for spec in self.specs], dim=1)
        pairs = zip(columns, self.specs, strict=True)
        found = tuple(column.reshape(-1, *spec.shape).to(spec.dtype) for column, spec in pairs)
        if self.names:
            # In another order than the network takes them.
            return dict(reversed(list(zip(self.names, found, strict=True))))
        return found if len(found) > 1 else found[0]


class FlatToy(Toy):
    """Rows made of given examples."""

    def __init__(self, example: Example, classes: int) -> None:
        given = module_input(example)
        super().__init__((1,), classes, len(given.tensors[0]))
        self.inputs = torch.cat([each.flatten(1).double() for each in given.tensors], dim=1)
        self.flat = FlatSamples(given.specs, given.names)

    @property
    def description(self) -> DataDescription:
        return DataDescription("toy", len(self), self.flat)  # type: ignore[arg-type]


def loss_of_each(outputs: Any, labels: Tensor) -> Tensor:
    """A loss of any outputs: all tensors of floats count."""
    floats = [each.flatten(1) for each in as_bundle(outputs) if each.is_floating_point()]
    return functional.cross_entropy(torch.cat(floats, dim=1), labels, reduction="none")


class ModuleRig(Rig):
    """A module, cut into layers, and samples for it."""

    def __init__(self, module: nn.Module, example: Example, *, classes: int = 2, dtype: Dtype = "float64") -> None:
        self.module = module.to(getattr(torch, dtype))
        example = _each(example, lambda x: x.to(getattr(torch, dtype)) if x.is_floating_point() else x)
        self.network = network_from_module("tests:module", self.module, _each(example, lambda x: x[:2]))
        super().__init__(
            [layer.module for layer in self.network.layers],
            (1,),
            classes=classes,
            options=Options(dtype=dtype, lr=0.05),
            bundles={
                "inputs": self.network.inputs,
                "input_names": self.network.input_names,
                "outputs": [layer.outputs for layer in self.network.layers],
            },
        )
        self.ties = tied_weights(self.network.layers)
        self.__dict__["data"] = FlatToy(example, classes)
        self.__dict__["shapes"] = [self.network.input_shape, *(layer.output_shape for layer in self.network.layers)]
        self.wire = Recording()

    @property
    def objective(self) -> TrainingObjective:
        return TrainingObjective(SplittableLoss("tests", loss_of_each, 1.0), class_format(self.classes))

    def transport(self) -> Recording:
        self.wire = Recording()  # channels are numbered anew in every run
        return self.wire

    def fresh(self) -> list[nn.Module]:
        return list(copy.deepcopy(nn.ModuleList(self.layers)))

    @cached_property
    def sizes(self) -> tuple[Layer, ...]:
        """The layers of the profile."""
        return tuple(layer_sizes(self.network, no_progress))

    def evaluator(self, cluster: Cluster) -> Evaluator:
        layers = self.sizes
        zero = dict.fromkeys(("forward_s", "backward_s", "update_s"), [0.0] * len(layers))
        fields = {
            "model": "toy",
            "input_bytes": float(input_bytes(self.network)),
            "sample_bytes": self.stored_bytes,
            "layers": [layer.model_dump() for layer in layers],
            "nodes": dict.fromkeys(cluster.nodes, zero),
            "ties": [each.model_dump() for each in layer_ties(self.network)],
        }
        return Evaluator(validated(Profile, fields), cluster)

    def one_process(self, iterations: int) -> tuple[list[float], Weights]:
        """The module itself in a plain loop."""
        module = copy.deepcopy(self.module).train()
        optimizer = torch.optim.SGD([w for w in module.parameters() if w.requires_grad], lr=self.options.lr)
        batches, losses = Batches(len(self.data), BATCH, self.options.seed), []
        for number in range(iterations):
            rows, labels = self.data.batch(batches.indices(number))
            given = self.data.flat.parts(rows)  # type: ignore[attr-defined]
            outputs = module(**given) if isinstance(given, Mapping) else module(*as_bundle(given))
            loss = loss_of_each(plain_structure(outputs), labels).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, dict(module.state_dict())


def two_cuts(depth: int, first: int, second: int, codec: str = "none") -> Phase:
    """Three instances on three nodes."""
    return phase(
        source("a", BATCH, "I"),
        instance("I", 1, first, "a", "J", codec=codec),
        instance("J", first + 1, second, "b", "K", codec=codec),
        instance("K", second + 1, depth, "c"),
    )


def two_branches(depth: int, first: int) -> Phase:
    """Half of the samples come to the root as they are, the others through two nodes."""
    return phase(
        source("a", BATCH // 2, "I"),
        source("a", BATCH // 2, "W"),
        instance("I", 1, first, "a", "J"),
        instance("W", 1, first, "b", "J"),
        instance("J", first + 1, depth, "c"),
    )


def _each(example: Example, change: Callable[[Tensor], Tensor]) -> Example:
    if isinstance(example, Tensor):
        return change(example)
    if isinstance(example, Mapping):
        return {name: change(each) for name, each in example.items()}
    return tuple(map(change, example))
