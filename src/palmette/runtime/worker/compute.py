"""What a node computes: the forward and backward passes of its instances, and the updates of their weights.

Instances that hold the same layer on one node share its weights under ``step``. Gradients are kept per instance and
layer from backward to update, and summed in the plan's order where replicas meet, so that the result does not depend on
timing. Buffers of a layer (the running statistics of batch norm) belong to each instance, and those of the first
instance in the plan count, for the same reason.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn

from palmette.cost.memory import Optimizer
from palmette.cost.replicas import updated_layers
from palmette.cost.sizes import Run
from palmette.errors import RunError
from palmette.runtime.options import Options
from palmette.runtime.program import numbers_of, positions
from palmette.runtime.worker.batch_norm import Ask, SharedNorms, alone
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.spec.plan import Phase
from palmette.zoo.freezing import freeze

OPTIMIZERS: dict[Optimizer, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "momentum": partial(torch.optim.SGD, momentum=0.9),
    "adam": torch.optim.Adam,
}
# A label that no data can have: PyTorch's default would ignore samples labelled -100.
_NONE_IGNORED = torch.iinfo(torch.int64).min


class SavedForward:
    """What an instance keeps from forward to backward."""

    __slots__ = ("inputs", "labels", "outputs")

    def __init__(self, inputs: Tensor, outputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.outputs, self.labels = inputs, outputs, labels


class Compute:
    """The layers of some instances of one node, by number from 1, and all computation with them.

    ``own`` are the instances that share these layers; by default, all of the node's.
    """

    def __init__(
        self,
        phase: Phase,
        node: str,
        layers: Mapping[int, nn.Module],
        options: Options,
        device: str = "cpu",
        *,
        own: Sequence[int] | None = None,
    ) -> None:
        self._phase, self._options = phase, options
        self.device = _device(device)
        self.dtype: torch.dtype = getattr(torch, options.dtype)
        self.layers = {number: self._prepared(number, module) for number, module in layers.items()}
        self._trained = {number: list(trainable_weights(module).values()) for number, module in self.layers.items()}
        here = [k for k, instance in enumerate(phase.instances) if instance.node == node]
        self._own = here if own is None else own
        updated = updated_layers([phase.instances[k] for k in self._own])
        self._updates = {k: numbers_of(runs) for k, runs in zip(self._own, updated, strict=True)}
        self._modules = {k: self._run_of(k) for k in self._own}
        self._positions = positions(phase)
        self._kept: dict[int, SavedForward] = {}
        self._gradients: dict[tuple[int, int], list[Tensor]] = {}
        self._optimizers = {k: self._optimizer(k) for k in self._own}
        self._shared = shared_norm_layers(phase)
        self.asks: dict[int, Ask] = {}
        self.begin: Callable[[int], None] = lambda _: None

    def _prepared(self, number: int, module: nn.Module) -> nn.Module:
        module = replace_dropout(module.to(self.device, self.dtype).train(), str(number))
        freeze(module, self._options.freeze)
        return module

    def _run_of(self, k: int) -> list[nn.Module]:
        """The layers of an instance, in order; those that an earlier instance on the node holds share its weights."""
        first, last = self._phase.instances[k].layers
        own = self.updates(k)
        return [self.layers[n] if n in own else shared_copy(self.layers[n]) for n in range(first, last + 1)]

    def _optimizer(self, k: int) -> torch.optim.Optimizer | None:
        """The optimizer of the layers that this instance updates: those that no earlier one on the node holds."""
        weights = [weight for number in self.updates(k) for weight in self._trained[number]]
        if not weights:
            return None
        return OPTIMIZERS[self._options.optimizer](weights, lr=self._options.lr)

    def updates(self, k: int) -> list[int]:
        """The layers whose weights an instance updates; a shared layer is updated by the first that holds it."""
        return self._updates[k]

    def forward(self, k: int, inputs: Sequence[Tensor], labels: Sequence[Tensor], iteration: int) -> Tensor:
        """The output of an instance; keeps what backward needs. Calls ``begin`` with the iteration first."""
        self.begin(iteration)
        instance = self._phase.instances[k]
        whole = (inputs[0] if len(inputs) == 1 else torch.cat(list(inputs))).to(self.device)
        if whole.is_floating_point():
            whole = whole.to(self.dtype).detach().requires_grad_(instance.layers[0] > 1)
        values = whole
        draw = Draw(self._options.seed, iteration, self._positions[k])
        with Drawing(draw), self._precision():
            for number, module in enumerate(self._modules[k], instance.layers[0]):
                with self._norms(k, number):
                    values = module(values)
        known = labels[0] if len(labels) == 1 else torch.cat(list(labels))
        self._kept[k] = SavedForward(whole, values, known.to(self.device))
        return values.detach().to(self.dtype)

    def _norms(self, k: int, number: int) -> AbstractContextManager[object]:
        """Let the batch norms of a replicated layer ask for the statistics of the whole batch."""
        if number not in self._shared:
            return nullcontext()
        return SharedNorms(number, partial(self._totals, k))

    def _totals(self, k: int, layer: int, number: int, sums: Tensor) -> Tensor:
        """The totals for an instance's batch norm in the current pass; its own sums if nobody else has any."""
        return self.asks.get(k, alone)(layer, number, sums)

    def backward(self, k: int, gradient: Tensor | None) -> tuple[Tensor | None, float]:
        """The gradient of an instance's input, None for raw data; and the loss, for a root (``gradient`` is None).

        The loss is the sum over the samples divided by the batch size of the whole phase.
        """
        kept, loss = self._kept.pop(k), 0.0
        outputs = kept.outputs
        if gradient is None:
            outputs = self._lost(outputs, kept.labels)
            loss, gradient = outputs.item() / self._phase.batch, torch.full_like(outputs, 1 / self._phase.batch)
        first, last = self._phase.instances[k].layers
        passes_on = kept.inputs.requires_grad
        wanted: list[Tensor] = [kept.inputs] if passes_on else []
        for number in range(first, last + 1):
            wanted += self._trained[number]
        found: Sequence[Tensor | None] = [None] * len(wanted)
        if wanted and outputs.requires_grad:
            found = torch.autograd.grad(outputs, wanted, gradient.to(outputs.dtype), allow_unused=True)
        gradients = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
        self._keep_gradients(k, gradients[passes_on:])
        return gradients[0] if passes_on else None, loss

    def _lost(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The sum of the samples' losses."""
        with self._precision():
            outputs = outputs.float() if self._options.mixed_precision else outputs
            return nn.functional.cross_entropy(outputs, labels, reduction="sum", ignore_index=_NONE_IGNORED)

    def _keep_gradients(self, k: int, gradients: Sequence[Tensor]) -> None:
        first, last = self._phase.instances[k].layers
        at = 0
        for number in range(first, last + 1):
            if many := len(self._trained[number]):
                self._gradients[k, number] = list(gradients[at : at + many])
                at += many

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
            weights = self._trained[number]
            parts = torch.split(value.to(self.device), [weight.numel() for weight in weights])
            self._gradients[k, number] = [part.view_as(weight) for part, weight in zip(parts, weights, strict=True)]

    def scale_gradients(self, k: int, factor: float) -> None:
        """Multiply the gradients of an instance."""
        for (own, _), parts in self._gradients.items():
            if own == k:
                parts[:] = [part * factor for part in parts]

    def update(self, k: int) -> None:
        """Update the weights of an instance with its gradients, and clear these."""
        optimizer = self._optimizers[k]
        if optimizer is not None:
            for number in self.updates(k):
                for weight, part in zip(self._trained[number], self._gradients.get((k, number), ()), strict=True):
                    weight.grad = part
            optimizer.step()
            for number in self.updates(k):
                for weight in self._trained[number]:
                    weight.grad = None
        for number in self.updates(k):
            self._gradients.pop((k, number), None)

    def reset_optimizers(self) -> None:
        """Clear momentum and moments, as after an exchange of weights."""
        self._optimizers = {k: self._optimizer(k) for k in self._own}

    def optimizer_state(self) -> dict[str, Tensor]:
        """The state of the optimizers by ``weight name/key``."""
        state = {}
        for k, optimizer in self._optimizers.items():
            for number in self.updates(k):
                for name, weight in trainable_weights(self.layers[number]).items():
                    for key, value in (optimizer.state.get(weight, {}) if optimizer else {}).items():
                        if isinstance(value, Tensor):
                            state[f"{name}/{key}"] = value
        return state

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state that ``optimizer_state`` returned."""
        for k, optimizer in self._optimizers.items():
            for number in self.updates(k):
                for name, weight in trainable_weights(self.layers[number]).items():
                    keys = [key for key in state if key.rpartition("/")[0] == name]
                    if keys and optimizer is not None:
                        optimizer.state[weight] = {key.rpartition("/")[2]: state[key].clone() for key in keys}

    def _precision(self) -> AbstractContextManager[object]:
        if not self._options.mixed_precision:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)


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


def trainable_layers(layers: Mapping[int, nn.Module], runs: Iterable[Run]) -> list[int]:
    """The layers of some runs that have trainable weights."""
    numbers = [number for first, last in runs for number in range(first, last + 1)]
    return [number for number in numbers if trainable_weights(layers[number])]


def shared_copy(module: nn.Module) -> nn.Module:
    """A copy of the module that shares its weights but has its own buffers."""
    return copy.deepcopy(module, {id(weight): weight for weight in module.parameters()})


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise RunError("device: cuda: this machine has no usable GPU; expected device: cpu")
    return torch.device(name)
