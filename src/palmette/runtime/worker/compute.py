"""What a node computes: the forward and backward passes of its instances, and the updates of their weights.

Instances that hold the same layer on one node share its weights under ``step``. Buffers of a layer (the running
statistics of batch norm) belong to each instance, and those of the first instance in the plan count, so that the result
does not depend on timing. An instance that recomputes makes its passes block by block (``recompute``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from palmette.cost.replicas import held_numbers, updated_layers
from palmette.cost.sizes import Run
from palmette.runtime.data.batches import Indices
from palmette.runtime.devices import to_device, usable_device
from palmette.runtime.options import Options
from palmette.runtime.program import numbers_of, positions
from palmette.runtime.worker.batch_norm import AskTotals, SharedNorms, alone, shared_norm_layers
from palmette.runtime.worker.bundles import detached, joined_samples
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.runtime.worker.gradients import GradientStore, gradients_of
from palmette.runtime.worker.optimizer_state import UpdatedWeight, load_optimizer_state, optimizer_state
from palmette.runtime.worker.optimizers import WeightUpdates
from palmette.runtime.worker.precision import autocast, in_single_precision
from palmette.runtime.worker.recompute import RecomputedBlock, RecomputedPass
from palmette.runtime.worker.replica_state import unmarked
from palmette.runtime.worker.saved_forward import BucketedPass, PartedPass, SavedForward
from palmette.runtime.worker.weight_half import WeightHalf, input_half
from palmette.runtime.worker.weights import named_weights, shared_copy, tie, trained_weights
from palmette.spec.plan import Phase
from palmette.zoo.capture import TiedWeight, as_bundle
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.casting import cast_floats
from palmette.zoo.data.base import LabelTree
from palmette.zoo.freezing import freeze
from palmette.zoo.recipes.loss import LossTotal
from palmette.zoo.recipes.objective import TrainingObjective


class Compute:
    """The layers of some instances of one node, by number from 1, and all computation with them.

    ``own`` are the instances that share these layers; by default, all of the node's. A root needs an ``objective``.
    ``learning`` says for the tensors that a layer returns whether a gradient flows back through each; by default,
    through all of floats. ``ties`` are the weights of the network that several layers use: on a node they are one, and
    count as a layer of their own.
    """

    _store: ClassVar[type[GradientStore]] = GradientStore

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
        self._tied_layers = [each.layers for each in ties]
        here = [k for k, instance in enumerate(phase.instances) if instance.node == node]
        self._own = here if own is None else own
        updated = updated_layers([phase.instances[k] for k in self._own], self._tied_layers, phase.depth)
        self._updates = {k: numbers_of(runs) for k, runs in zip(self._own, updated, strict=True)}
        self._modules = {k: self._run_of(k) for k in self._own}
        self._positions = positions(phase)
        self._kept: dict[int, SavedForward] = {}
        self._recomputed: dict[int, RecomputedPass] = {}
        self._bucketed: dict[int, BucketedPass] = {}
        self._waiting: dict[int, WeightHalf] = {}
        held = {k: self._held_in(phase.instances[k].layers) for k in self._own}
        self.gradients = self._store(held, self._trained, self.device)
        self._optimizers = {k: self._optimizer(k, options.span.first) for k in self._own}
        self._shared = shared_norm_layers(phase)
        self.asks: dict[int, AskTotals] = {}
        self.begin: Callable[[int], None] = lambda _: None
        self.order: Callable[[int], Indices | None] = lambda _: None
        self.targets: Callable[[int, LabelTree], LabelTree] = lambda _, labels: labels

    def _prepared(self, number: int, module: nn.Module) -> nn.Module:
        module = replace_dropout(cast_floats(module, self.dtype, self.device).train(), str(number))
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

    def forward(
        self, k: int, inputs: Sequence[Bundle], labels: Sequence[Tensor], iteration: int, blocks: Sequence[Run] = ()
    ) -> Bundle:
        """The output of an instance; keeps what backward needs. Calls ``begin`` with the iteration first.

        ``blocks`` are those of an instance that recomputes; backward then needs ``recompute`` before each of them. Of
        another, they are the parts that go back one by one.
        """
        self.begin(iteration)
        layers = self._phase.instances[k].layers
        whole = self._entered(layers[0], joined_samples(inputs))
        draw = Draw(self.options.seed, iteration, self._positions_in(k, iteration))
        known = self._targets(k, labels[0] if len(labels) == 1 else torch.cat(list(labels)), iteration)
        if blocks and self._phase.instances[k].recompute:
            values = self._forward_blocks(k, blocks, whole, RecomputedPass(draw, known, []))
        elif blocks:
            values = self._forward_parts(k, blocks, whole, draw, known)
        else:
            values = self._through(k, layers, whole, draw)
            self._kept[k] = SavedForward(layers, whole, values, known)
        return detached(as_bundle(values), self.dtype)

    def _forward_parts(self, k: int, parts: Sequence[Run], inputs: Bundle, draw: Draw, labels: LabelTree) -> Any:
        """Values through an instance part by part, each of which can go back by itself."""
        saved: list[SavedForward] = []
        for run in parts:
            if saved:
                passed = tuple(each.detach() for each in as_bundle(saved[-1].outputs))
                inputs = self._learning_inputs(run[0], passed)
            saved.append(self._saved_part(run, inputs, self._through(k, run, inputs, draw), labels))
        self._kept[k] = saved.pop()
        self._bucketed[k] = BucketedPass(saved)
        return self._kept[k].outputs

    def _saved_part(self, run: Run, inputs: Bundle, outputs: Any, labels: LabelTree) -> SavedForward:
        ties = {n: [w.view_as(w) for w in self._trained[n]] for n in self._held_in(run) if n > self._phase.depth}
        return SavedForward(run, inputs, outputs, labels, ties)

    def _targets(self, k: int, rows: Tensor, iteration: int) -> LabelTree:
        """What a root compares its outputs with; other instances need none."""
        if self._phase.instances[k].into is not None:
            return None
        assert self._objective is not None, "a root has an objective"
        return self.targets(iteration, self._objective.labels.read(rows.to(self.device)))

    @torch.no_grad()
    def _forward_blocks(self, k: int, blocks: Sequence[Run], values: Any, made: RecomputedPass) -> Any:
        """Values through an instance, of which the inputs of its blocks are kept; layers before them do not learn."""
        first = self._phase.instances[k].layers[0]
        if first < blocks[0][0]:
            values = self._through(k, (first, blocks[0][0] - 1), values, made.draw)
        for run in blocks:
            block = RecomputedBlock(run, as_bundle(values), self._modules_of(k, run), self.device)
            with block.first():
                values = self._through(k, run, values, made.draw, block)
            made.blocks.append(block)
        self._recomputed[k] = made
        if self._phase.instances[k].into is None and self._divisor_varies:
            made.divisor = float(self._lost(values, made.labels).divisor)
        return values

    def recompute(self, k: int) -> None:
        """Compute the last block of an instance that is left once more, for its backward."""
        made = self._recomputed[k]
        block = made.blocks.pop()
        inputs = self._learning_inputs(block.run[0], tuple(each.detach() for each in block.inputs))
        with block.again():
            outputs = self._through(k, block.run, inputs, made.draw, block)
        self._kept[k] = self._saved_part(block.run, inputs, outputs, made.labels)

    def _through(self, k: int, run: Run, values: Any, draw: Draw, block: RecomputedBlock | None = None) -> Any:
        """Values through some layers of an instance.

        Each casts its weights for itself: where several use one, autocast would add their gradients in 16 bits, but not
        where a tree or a pass is divided between them.
        """
        with Drawing(draw):
            for number, module in enumerate(self._modules_of(k, run), run[0]):
                with self._norms(k, number, block), autocast(self.options.autocast, self.device.type):
                    values = module(*as_bundle(values))
        return values

    def _modules_of(self, k: int, run: Run) -> list[nn.Module]:
        first = self._phase.instances[k].layers[0]
        return self._modules[k][run[0] - first : run[1] + 1 - first]

    def _entered(self, first: int, bundle: Bundle) -> Bundle:
        """The input of an instance that begins with layer ``first``, ready for gradients to flow back to it."""
        moved = detached(tuple(to_device(tensor, self.device) for tensor in bundle), self.dtype)
        return self._learning_inputs(first, moved)

    def _learning_inputs(self, first: int, bundle: Bundle) -> Bundle:
        learning = self._flows_back(first - 1, bundle) if first > 1 else [False] * len(bundle)
        return tuple(tensor.requires_grad_(flag) for tensor, flag in zip(bundle, learning, strict=True))

    def _flows_back(self, layer: int, bundle: Bundle) -> Sequence[bool]:
        """Whether a gradient flows back through each tensor that a layer returned."""
        return self._learning.get(layer) or [tensor.is_floating_point() for tensor in bundle]

    def _positions_in(self, k: int, iteration: int) -> Sequence[int]:
        """The positions of an instance's samples in the batch as it was drawn."""
        order = self.order(iteration)
        return self._positions[k] if order is None else order[self._positions[k]].tolist()

    def _norms(self, k: int, number: int, block: RecomputedBlock | None) -> AbstractContextManager[object]:
        """Let the batch norms of a replicated layer ask for the statistics of the whole batch."""
        if number not in self._shared:
            return nullcontext()
        ask = partial(self._totals, k)
        return SharedNorms(number, ask, None if block is None else block.remembering(ask))

    def _totals(self, k: int, layer: int, number: int, sums: Tensor) -> Tensor:
        """The totals for an instance's batch norm in the current pass; its own sums if nobody else has any."""
        return self.asks.get(k, alone)(layer, number, sums)

    @property
    def _divisor_varies(self) -> bool:
        return self._objective is not None and self._objective.loss.per_sample is None

    def divisor(self, k: int) -> float:
        """What the samples of a root count, between its forward and its backward call."""
        if k in self._recomputed:
            return self._recomputed[k].divisor
        kept = self._kept[k]
        kept.lost = self._lost(kept.outputs, kept.labels)
        return float(kept.lost.divisor)

    def backward(self, k: int, gradient: Bundle | None, divisor: float | None = None) -> tuple[Bundle | None, float]:
        """The gradient of an instance's input, None for raw data; and the loss, for a root (``gradient`` is None).

        A gradient has only the tensors of a bundle that one flows back through. The loss is the sum over the samples
        divided by the divisor of the whole phase's batch: ``divisor``, where roots have found it together. Of an
        instance that has blocks, this is the backward of one: the first returns the loss, the last the gradient.
        """
        kept = self._kept.pop(k)
        made: PartedPass | None = self._recomputed.get(k, self._bucketed.get(k))
        gradient = gradient if made is None or made.gradient is None else made.gradient
        outputs, gradient, loss = self._ends(k, kept, gradient, divisor)
        if made is not None:
            outputs, gradient = made.ends(kept, outputs, gradient)
        inputs, weights = self._starts(kept)
        gradients = gradients_of(outputs, gradient, [*inputs, *weights])
        by_layer, passed = self._by_layer(kept.run, gradients[len(inputs) :]), tuple(gradients[: len(inputs)])
        if made is not None:
            made.gradients |= {number: by_layer.pop(number) for number in list(by_layer) if number > self._phase.depth}
            self._put(k, by_layer)
            if made.parts_left:
                self._go_on(k, made, passed)
                return None, loss
            self._recomputed.pop(k, None)
            self._bucketed.pop(k, None)
            by_layer = made.gradients
        self._put(k, by_layer)
        return passed if self._phase.instances[k].layers[0] > 1 else None, loss

    def backward_input(self, k: int, gradient: Bundle | None, divisor: float | None = None) -> tuple[Bundle, float]:
        """The first half of ``backward``, for an instance without blocks; the gradients of its weights wait."""
        kept = self._kept.pop(k)
        outputs, gradient, loss = self._ends(k, kept, gradient, divisor)
        passed, self._waiting[k] = input_half(outputs, gradient, *self._starts(kept))
        return tuple(passed), loss

    def backward_weights(self, k: int) -> None:
        """The second half: the gradients of an instance's weights."""
        own = self._waiting.pop(k).gradients()
        self._put(k, self._by_layer(self._phase.instances[k].layers, own))

    def _ends(
        self, k: int, kept: SavedForward, gradient: Bundle | None, divisor: float | None
    ) -> tuple[Bundle, Bundle, float]:
        """Where a backward pass begins, the gradients there, and the loss of a root (``gradient`` is None)."""
        if gradient is not None:
            returned = as_bundle(kept.outputs)
            return tuple(itertools.compress(returned, self._flows_back(kept.run[1], returned))), gradient, 0.0
        lost = kept.lost or self._lost(kept.outputs, kept.labels)
        whole = self._divisor_of_batch(k, lost) if divisor is None else divisor or 1.0
        scaled = torch.full_like(lost.total, self.options.gradient_scale / whole)
        return (lost.total,), (scaled,), lost.total.item() / whole

    def _starts(self, kept: SavedForward) -> tuple[list[Tensor], list[nn.Parameter]]:
        """Where a backward pass ends: the inputs, and the weights that are trained."""
        weights = [weight for number in self._held_in(kept.run) for weight in self._trained[number]]
        return [tensor for tensor in kept.inputs if tensor.requires_grad], weights

    def _go_on(self, k: int, made: PartedPass, gradient: Bundle) -> None:
        """Get ready for the next part of a backward pass."""
        made.gradient, saved = gradient, made.next_saved()
        if saved is not None:
            self._kept[k] = saved

    def _held_in(self, run: Run) -> list[int]:
        """The layers of a run, and the ties that it holds."""
        return held_numbers(run, self._tied_layers, self._phase.depth)

    def _lost(self, outputs: Any, labels: LabelTree) -> LossTotal:
        """The sum of the losses of a root's samples, and what they count."""
        assert self._objective is not None, "a root has an objective"
        with autocast(self.options.autocast, self.device.type):
            outputs = in_single_precision(outputs) if self.options.autocast else outputs
            return self._objective.total(outputs, labels)

    def _divisor_of_batch(self, k: int, lost: LossTotal) -> float:
        """What makes the sum of a root's losses its part of the mean over the whole batch."""
        assert self._objective is not None, "a root has an objective"
        if self._objective.loss.per_sample is None:
            return float(lost.divisor) or 1.0
        # Per sample of this batch, which may be shorter than those that the loss was tried with.
        return float(lost.divisor) / len(self._positions[k]) * self._phase.batch

    def _by_layer(self, run: Run, gradients: Sequence[Tensor]) -> dict[int, list[Tensor]]:
        """The gradients of the weights of some layers, by layer and tie."""
        rest = iter(gradients)
        learning = (number for number in self._held_in(run) if self._trained[number])
        return {number: list(itertools.islice(rest, len(self._trained[number]))) for number in learning}

    def _put(self, k: int, by_layer: dict[int, list[Tensor]]) -> None:
        """Store gradients of an instance, without their scale."""
        scale = self.options.gradient_scale
        own = by_layer if scale == 1 else {n: [each / scale for each in parts] for n, parts in by_layer.items()}
        self.gradients.put_own(k, own)

    def trained(self, number: int) -> list[nn.Parameter]:
        """The weights of a layer that are trained and that it shares with no other, or the weight of a tie."""
        return self._trained[number]

    @property
    def numbers(self) -> list[int]:
        """The layers here, and the ties of which one is here."""
        return list(self._trained)

    @property
    def tied_layers(self) -> Sequence[Sequence[int]]:
        """The layers that use each tie."""
        return self._tied_layers

    def names(self, weight: nn.Parameter, number: int) -> list[str]:
        """The names of a trained weight of a layer or tie in the layers here."""
        return [name for name, each in self._named(number) if each is weight]

    def trained_layers(self, runs: Iterable[Run]) -> list[int]:
        """The layers and ties of some runs that have such weights."""
        return [number for number in numbers_of(runs) if self._trained[number]]

    def update(
        self, k: int, norm: float | None = None, iterations: int = 1, numbers: Sequence[int] | None = None
    ) -> None:
        """Update the weights of an instance with its gradients, and clear these; see ``WeightUpdates.update``.

        ``numbers`` are the layers to update, where these are not all.
        """
        gradients: dict[nn.Parameter, Tensor] = {}
        for number in self.updates(k) if numbers is None else numbers:
            parts = self.gradients.take(k, number)
            gradients |= dict(zip(self._trained[number], parts, strict=True))
        optimizer = self._optimizers[k]
        if optimizer is not None:
            optimizer.update(gradients, norm, iterations)

    def squares(self, gradients: Mapping[int, Tensor], iterations: int = 1) -> float:
        """The sum of the squares of gradients, each layer's in one flat tensor, with those accumulated before."""
        total = 0.0
        for k, optimizer in self._optimizers.items():
            for number in self.updates(k):
                if optimizer is not None and number in gradients:
                    own = self.gradients.split(number, gradients[number])
                    total += optimizer.squares(self._trained[number], own, iterations)
        return total

    def own_squares(self, k: int) -> float:
        """The sum of the squares of an instance's gradients, with those accumulated before."""
        return self.squares(self.gradients.flat_of(k, self.updates(k)))

    def reset_optimizers(self, first: int) -> None:
        """Clear momentum and moments, as after an exchange of weights; the next iteration is ``first``."""
        self._optimizers = {k: self._optimizer(k, first) for k in self._own}

    def optimizer_state(self) -> dict[str, Tensor]:
        """The state of the optimizers by ``weight name/key``."""
        return optimizer_state(self._updated())

    def load_optimizer_state(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a state that ``optimizer_state`` returned; what is marked as others' is left out."""
        load_optimizer_state(self._updated(), unmarked(state))

    def _updated(self) -> Iterator[UpdatedWeight]:
        """The weights that are updated here, by each of their names, with their optimizers."""
        for k, optimizer in self._optimizers.items():
            if optimizer is not None:
                for number in self.updates(k):
                    for name, weight in self._named(number):
                        yield name, weight, optimizer

    def _named(self, number: int) -> Iterator[tuple[str, nn.Parameter]]:
        """The trained weights of a layer or tie, with every name that they have in the layers here."""
        modules = [self.layers[number]] if number in self.layers else self.layers.values()
        return named_weights(modules, self._trained[number])
