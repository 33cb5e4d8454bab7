"""What a node computes: the forward and backward passes of its instances, and the updates of their weights.

Instances that hold the same layer on one node share its weights under ``step``. Gradients are kept per instance and
layer from backward to update, and summed in the plan's order where replicas meet, so that the result does not depend on
timing. Buffers of a layer (the running statistics of batch norm) belong to each instance, and those of the first
instance in the plan count, for the same reason.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from palmette.cost.replicas import held_numbers, updated_layers
from palmette.cost.sizes import Run
from palmette.runtime.data.batches import Indices
from palmette.runtime.devices import to_device, usable_device
from palmette.runtime.options import Options, Precision
from palmette.runtime.program import numbers_of, positions
from palmette.runtime.worker.batch_norm import Ask, SharedNorms, alone
from palmette.runtime.worker.bundles import detached, joined_samples
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.runtime.worker.optimizers import WeightUpdates
from palmette.spec.plan import Phase
from palmette.zoo.capture import TiedWeight, as_bundle
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.freezing import freeze
from palmette.zoo.recipes.objective import TrainingObjective

AUTOCAST: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


class SavedForward:
    """What an instance keeps from forward to backward."""

    __slots__ = ("inputs", "labels", "outputs")

    def __init__(self, inputs: Bundle, outputs: Any, labels: Tensor) -> None:
        self.inputs, self.outputs, self.labels = inputs, outputs, labels


class Compute:
    """The layers of some instances of one node, by number from 1, and all computation with them.

    ``own`` are the instances that share these layers; by default, all of the node's. A root needs an ``objective``.
    ``learning`` says for the tensors that a layer returns whether a gradient flows back through each; by default,
    through all of floats. ``ties`` are the weights of the network that several layers use: on a node they are one, and
    count as a layer of their own.
    """

    def __init__(
        self,
        phase: Phase,
        node: str,
        layers: Mapping[int, nn.Module],
        options: Options,
        device: str = "cpu",
        *,
        objective: TrainingObjective | None = None,
        own: Sequence[int] | None = None,
        learning: Mapping[int, Sequence[bool]] = MappingProxyType({}),
        ties: Sequence[TiedWeight] = (),
    ) -> None:
        self._phase, self.options, self._learning = phase, options, learning
        self.device = usable_device(device)
        self.dtype: torch.dtype = getattr(torch, options.dtype)
        self._objective = None if objective is None else objective.to(self.device, self.dtype)
        self.layers = {number: self._prepared(number, module) for number, module in layers.items()}
        tied = {number: tie(self.layers, each) for number, each in enumerate(ties, phase.depth + 1)}
        self._trained = trained_weights(self.layers, {n: weight for n, weight in tied.items() if weight is not None})
        self._held = [
            held_numbers(instance, [each.layers for each in ties], phase.depth) for instance in phase.instances
        ]
        here = [k for k, instance in enumerate(phase.instances) if instance.node == node]
        self._own = here if own is None else own
        known = [each.layers for each in ties]
        updated = updated_layers([phase.instances[k] for k in self._own], known, phase.depth)
        self._updates = {k: numbers_of(runs) for k, runs in zip(self._own, updated, strict=True)}
        self._modules = {k: self._run_of(k) for k in self._own}
        self._positions = positions(phase)
        self._kept: dict[int, SavedForward] = {}
        self._gradients: dict[tuple[int, int], list[Tensor]] = {}
        self._optimizers = {k: self._optimizer(k, options.span.first) for k in self._own}
        self._shared = shared_norm_layers(phase)
        self.asks: dict[int, Ask] = {}
        self.begin: Callable[[int], None] = lambda _: None
        self.order: Callable[[int], Indices | None] = lambda _: None

    def _prepared(self, number: int, module: nn.Module) -> nn.Module:
        module = replace_dropout(module.to(self.device, self.dtype).train(), str(number))
        freeze(module, self.options.freeze)
        return module

    def _run_of(self, k: int) -> list[nn.Module]:
        """The layers of an instance, in order; those that an earlier instance on the node holds share its weights."""
        first, last = self._phase.instances[k].layers
        own = self.updates(k)
        return [self.layers[n] if n in own else shared_copy(self.layers[n]) for n in range(first, last + 1)]

    def _optimizer(self, k: int, first: int) -> WeightUpdates | None:
        """The optimizer of the layers that this instance updates: those that no earlier one on the node holds."""
        names = {weight: name for number in self.updates(k)[::-1] for name, weight in [*self._named(number)][::-1]}
        weights = {name: weight for weight, name in [*names.items()][::-1]}  # each once, under its first name
        return WeightUpdates(weights, self.options, first) if weights else None

    def updates(self, k: int) -> list[int]:
        """The layers whose weights an instance updates; a shared layer is updated by the first that holds it."""
        return self._updates[k]

    def forward(self, k: int, inputs: Sequence[Bundle], labels: Sequence[Tensor], iteration: int) -> Bundle:
        """The output of an instance; keeps what backward needs. Calls ``begin`` with the iteration first."""
        self.begin(iteration)
        instance = self._phase.instances[k]
        whole = self._entered(instance.layers[0], joined_samples(inputs))
        values: Any = whole
        draw = Draw(self.options.seed, iteration, self._positions_in(k, iteration))
        with Drawing(draw), self._precision():
            for number, module in enumerate(self._modules[k], instance.layers[0]):
                with self._norms(k, number):
                    values = module(*as_bundle(values))
        known = labels[0] if len(labels) == 1 else torch.cat(list(labels))
        self._kept[k] = SavedForward(whole, values, known.to(self.device))
        return detached(as_bundle(values), self.dtype)

    def _entered(self, first: int, bundle: Bundle) -> Bundle:
        """The input of an instance that begins with layer ``first``, ready for gradients to flow back to it."""
        moved = detached(tuple(to_device(tensor, self.device) for tensor in bundle), self.dtype)
        learning = self._flows_back(first - 1, moved) if first > 1 else [False] * len(moved)
        return tuple(tensor.requires_grad_(flag) for tensor, flag in zip(moved, learning, strict=True))

    def _flows_back(self, layer: int, bundle: Bundle) -> Sequence[bool]:
        """Whether a gradient flows back through each tensor that a layer returned."""
        return self._learning.get(layer) or [tensor.is_floating_point() for tensor in bundle]

    def _positions_in(self, k: int, iteration: int) -> Sequence[int]:
        """The positions of an instance's samples in the batch as it was drawn."""
        order = self.order(iteration)
        return self._positions[k] if order is None else order[self._positions[k]].tolist()

    def _norms(self, k: int, number: int) -> AbstractContextManager[object]:
        """Let the batch norms of a replicated layer ask for the statistics of the whole batch."""
        if number not in self._shared:
            return nullcontext()
        return SharedNorms(number, partial(self._totals, k))

    def _totals(self, k: int, layer: int, number: int, sums: Tensor) -> Tensor:
        """The totals for an instance's batch norm in the current pass; its own sums if nobody else has any."""
        return self.asks.get(k, alone)(layer, number, sums)

    def backward(self, k: int, gradient: Bundle | None) -> tuple[Bundle | None, float]:
        """The gradient of an instance's input, None for raw data; and the loss, for a root (``gradient`` is None).

        A gradient has only the tensors of a bundle that one flows back through. The loss is the sum over the samples
        divided by the divisor of the whole phase's batch.
        """
        kept, loss = self._kept.pop(k), 0.0
        (first, last), scale = self._phase.instances[k].layers, self.options.gradient_scale
        if gradient is None:
            total, divisor = self._lost(kept.outputs, kept.labels)
            loss = total.item() / divisor
            outputs: Bundle = (total,)
            gradient = (torch.full_like(total, scale / divisor),)
        else:
            returned = as_bundle(kept.outputs)
            outputs = tuple(itertools.compress(returned, self._flows_back(last, returned)))
        inputs = [tensor for tensor in kept.inputs if tensor.requires_grad]
        weights = [weight for number in self._held[k] for weight in self._trained[number]]
        gradients = gradients_of(outputs, gradient, [*inputs, *weights])
        own = gradients[len(inputs) :]
        self._keep_gradients(k, own if scale == 1 else [each / scale for each in own])
        return tuple(gradients[: len(inputs)]) if first > 1 else None, loss

    def _lost(self, outputs: Any, labels: Tensor) -> tuple[Tensor, float]:
        """The sum of the samples' losses, and what makes it the mean over the whole batch."""
        assert self._objective is not None, "a root has an objective"
        with self._precision():
            outputs = in_single_precision(outputs) if self.options.autocast else outputs
            total, divisor = self._objective.total(outputs, labels)
        each = self._objective.loss.per_sample
        return total, float(divisor) or 1.0 if each is None else each * self._phase.batch

    def _keep_gradients(self, k: int, gradients: Sequence[Tensor]) -> None:
        at = 0
        for number in self._held[k]:
            if many := len(self._trained[number]):
                self._gradients[k, number] = list(gradients[at : at + many])
                at += many

    def trained(self, number: int) -> list[nn.Parameter]:
        """The weights of a layer that are trained and that it shares with no other, or the weight of a tie."""
        return self._trained[number]

    def trained_layers(self, runs: Iterable[Run]) -> list[int]:
        """The layers and ties of some runs that have such weights."""
        return [number for number in numbers_of(runs) if self._trained[number]]

    def kept_gradients(self, k: int, number: int) -> list[Tensor]:
        """The gradients of an instance for one layer, one per weight."""
        return self._gradients[k, number]

    def take_gradients(self, k: int, gradients: Mapping[int, list[Tensor]]) -> None:
        """Store gradients for an instance, by layer, one per weight."""
        for number, parts in gradients.items():
            self._gradients[k, number] = [part.to(self.device) for part in parts]

    def added(self, number: int) -> Tensor:
        """The gradients of a layer in one flat tensor, summed over the instances that hold it; clears them."""
        found = [self._gradients.pop((k, number), None) for k in self._own]
        return summed([_flat(parts) for parts in found if parts is not None])

    def take_added(self, k: int, gradients: Mapping[int, Tensor]) -> None:
        """Store gradients by layer, each in one flat tensor as ``added`` returns them."""
        for number, value in gradients.items():
            self._gradients[k, number] = self._split(number, value)

    def _split(self, number: int, value: Tensor) -> list[Tensor]:
        """One gradient for each weight of a layer."""
        weights = self._trained[number]
        parts = torch.split(value.to(self.device), [weight.numel() for weight in weights])
        return [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]

    def scale_gradients(self, k: int, factor: float) -> None:
        """Multiply the gradients of an instance."""
        for (own, _), parts in self._gradients.items():
            if own == k:
                parts[:] = [part * factor for part in parts]

    def update(self, k: int, norm: float | None = None) -> None:
        """Update the weights of an instance with its gradients, and clear these; see ``WeightUpdates.update``."""
        gradients: dict[nn.Parameter, Tensor] = {}
        for number in self.updates(k):
            parts = self._gradients.pop((k, number), ())
            gradients |= dict(zip(self._trained[number], parts, strict=True))
        optimizer = self._optimizers[k]
        if optimizer is not None:
            optimizer.update(gradients, norm)

    def squares(self, gradients: Mapping[int, Tensor]) -> float:
        """The sum of the squares of gradients by layer, as ``added`` returns them, with those accumulated before."""
        total = 0.0
        for k, optimizer in self._optimizers.items():
            for number in self.updates(k):
                if optimizer is not None and number in gradients:
                    total += optimizer.squares(self._trained[number], self._split(number, gradients[number]))
        return total

    def reset_optimizers(self, first: int) -> None:
        """Clear momentum and moments, as after an exchange of weights; the next iteration is ``first``."""
        self._optimizers = {k: self._optimizer(k, first) for k in self._own}

    def optimizer_state(self) -> dict[str, Tensor]:
        """The state of the optimizers by ``weight name/key``."""
        state = {}
        for k, optimizer in self._optimizers.items():
            for number in self.updates(k):
                for name, weight in self._named(number):
                    for key, value in (optimizer.state_of(weight) if optimizer else {}).items():
                        state[f"{name}/{key}"] = value
        return state

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state that ``optimizer_state`` returned."""
        for k, optimizer in self._optimizers.items():
            for number in self.updates(k):
                for name, weight in self._named(number):
                    keys = [key for key in state if key.rpartition("/")[0] == name]
                    if keys and optimizer is not None:
                        optimizer.load(weight, {key.rpartition("/")[2]: state[key] for key in keys})

    def _named(self, number: int) -> Iterator[tuple[str, nn.Parameter]]:
        """The trained weights of a layer or tie, with every name that they have in the layers here."""
        own = set(self._trained[number])
        for module in [self.layers[number]] if number in self.layers else self.layers.values():
            yield from ((name, weight) for name, weight in trainable_weights(module).items() if weight in own)

    def _precision(self) -> AbstractContextManager[object]:
        if self.options.autocast is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=AUTOCAST[self.options.autocast])


def in_single_precision(outputs: Any) -> Any:
    """What a network returned, in float32 where it has floats."""
    return pytree.tree_map(lambda each: each.float() if each.is_floating_point() else each, outputs)


def gradients_of(outputs: Sequence[Tensor], gradients: Sequence[Tensor], wanted: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of wanted tensors, given those of the outputs; zeros where nothing flows back."""
    pairs = [(x, g.to(x.device, x.dtype)) for x, g in zip(outputs, gradients, strict=True) if x.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(wanted)
    if wanted and pairs:
        ends, starts = zip(*pairs, strict=True)
        found = torch.autograd.grad(ends, wanted, starts, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]


def shared_norm_layers(phase: Phase) -> set[int]:
    """The replicated layers whose batch norm uses the statistics of the whole batch."""
    if phase.batch_norm == "parts" or not phase.sync_kind.one_model:
        return set()
    held = Counter(n for i in phase.instances for n in range(i.layers[0], i.layers[1] + 1))
    return {number for number, many in held.items() if many > 1}


def summed(parts: Sequence[Tensor]) -> Tensor:
    """The sum of tensors, added in their order."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts]) if len(parts) > 1 else parts[0].reshape(-1)


def trainable_weights(module: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable weights of a layer, by their original names."""
    return {name: weight for name, weight in module.named_parameters() if weight.requires_grad}


def tie(layers: Mapping[int, nn.Module], tied: TiedWeight) -> nn.Parameter | None:
    """Make a tied weight one in all layers that use it; returns it, None if none of them is here."""
    found: nn.Parameter | None = None
    for number, name in zip(tied.layers, tied.names, strict=True):
        if number in layers:
            own = layers[number].get_parameter(name)
            found = own if found is None else found
            replace_weight(layers[number], own, found)
    return found


def replace_weight(module: nn.Module, old: nn.Parameter, new: nn.Parameter) -> None:
    """Use one weight in place of another, under all names that it has."""
    for name, weight in list(module.named_parameters(remove_duplicate=False)):
        if weight is old:
            path, _, leaf = name.rpartition(".")
            module.get_submodule(path).register_parameter(leaf, new)


def trained_weights(layers: Mapping[int, nn.Module], tied: Mapping[int, nn.Parameter]) -> dict[int, list[nn.Parameter]]:
    """The trained weights of each layer that it shares with no other, and those of ties."""
    shared = set(tied.values())
    found = {
        number: [weight for weight in trainable_weights(module).values() if weight not in shared]
        for number, module in layers.items()
    }
    return found | {number: [weight] if weight.requires_grad else [] for number, weight in tied.items()}


def trainable_layers(layers: Mapping[int, nn.Module], runs: Iterable[Run]) -> list[int]:
    """The layers of some runs that have trainable weights."""
    numbers = [number for first, last in runs for number in range(first, last + 1)]
    return [number for number in numbers if trainable_weights(layers[number])]


def shared_copy(module: nn.Module) -> nn.Module:
    """A copy of the module that shares its weights but has its own buffers."""
    return copy.deepcopy(module, {id(weight): weight for weight in module.parameters()})
