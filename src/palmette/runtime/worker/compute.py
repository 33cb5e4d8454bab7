"""What a node computes: the forward and backward passes of its instances.

An instance that recomputes makes its passes block by block (``recompute``). What its layers share with those of other
instances is in ``instance_layers``, how their weights are updated in ``instance_optimizers``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from palmette.cost.sizes import Run
from palmette.runtime.data.batches import Indices
from palmette.runtime.devices import to_device, usable_device
from palmette.runtime.options import Options
from palmette.runtime.program import positions
from palmette.runtime.worker.batch_norm import AskTotals, SharedNorms, alone, shared_norm_layers
from palmette.runtime.worker.bundles import detached, joined_samples
from palmette.runtime.worker.dropout import Draw, Drawing, replace_dropout
from palmette.runtime.worker.gradients import GradientStore, gradients_of
from palmette.runtime.worker.instance_layers import InstanceLayers
from palmette.runtime.worker.instance_optimizers import InstanceOptimizers
from palmette.runtime.worker.precision import autocast, in_single_precision
from palmette.runtime.worker.recompute import RecomputedBlock, RecomputedPass
from palmette.runtime.worker.saved_forward import BucketedPass, PartedPass, SavedForward
from palmette.runtime.worker.weight_half import WeightHalf, input_half
from palmette.spec.plan import Phase
from palmette.zoo.capture import TiedWeight, as_bundle
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.casting import cast_floats
from palmette.zoo.data.base import LabelTree
from palmette.zoo.freezing import freeze
from palmette.zoo.recipes.loss import LossTotal
from palmette.zoo.recipes.objective import TrainingObjective


class Compute:
    """The passes through the layers of some instances of one node, by number from 1; ``held`` are these layers.

    ``own`` are the instances that share these layers; by default, all of the node's. A root needs an ``objective``.
    ``learning`` says for the tensors that a layer returns whether a gradient flows back through each; by default,
    through all of floats. ``ties`` are the weights of the network that several layers use: on a node they are one.
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
        here = [k for k, instance in enumerate(phase.instances) if instance.node == node]
        prepared = {number: self._prepared(number, module) for number, module in layers.items()}
        self.held = InstanceLayers(phase, here if own is None else own, prepared, ties)
        self.layers = self.held.layers
        self.gradients = self._store(self.held.by_instance(), self.held.weights, self.device)
        self.optimizers = InstanceOptimizers(self.held, self.gradients, options)
        self._positions = positions(phase)
        self._kept: dict[int, SavedForward] = {}
        self._recomputed: dict[int, RecomputedPass] = {}
        self._bucketed: dict[int, BucketedPass] = {}
        self._waiting: dict[int, WeightHalf] = {}
        self._shared = shared_norm_layers(phase)
        self.asks: dict[int, AskTotals] = {}
        self.begin: Callable[[int], None] = lambda _: None
        self.order: Callable[[int], Indices | None] = lambda _: None
        self.targets: Callable[[int, LabelTree], LabelTree] = lambda _, labels: labels

    def _prepared(self, number: int, module: nn.Module) -> nn.Module:
        module = replace_dropout(cast_floats(module, self.dtype, self.device).train(), str(number))
        freeze(module, self.options.freeze)
        return module

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
        ties = {
            n: [w.view_as(w) for w in self.held.weights[n]] for n in self.held.numbers(run) if n > self._phase.depth
        }
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
            block = RecomputedBlock(run, as_bundle(values), self.held.modules(k, run), self.device)
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
            for number, module in enumerate(self.held.modules(k, run), run[0]):
                with self._norms(k, number, block), autocast(self.options.autocast, self.device.type):
                    values = module(*as_bundle(values))
        return values

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
        weights = [weight for number in self.held.numbers(kept.run) for weight in self.held.weights[number]]
        return [tensor for tensor in kept.inputs if tensor.requires_grad], weights

    def _go_on(self, k: int, made: PartedPass, gradient: Bundle) -> None:
        """Get ready for the next part of a backward pass."""
        made.gradient, saved = gradient, made.next_saved()
        if saved is not None:
            self._kept[k] = saved

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
        learning = (number for number in self.held.numbers(run) if self.held.weights[number])
        return {number: list(itertools.islice(rest, len(self.held.weights[number]))) for number in learning}

    def _put(self, k: int, by_layer: dict[int, list[Tensor]]) -> None:
        """Store gradients of an instance, without their scale."""
        scale = self.options.gradient_scale
        own = by_layer if scale == 1 else {n: [each / scale for each in parts] for n, parts in by_layer.items()}
        self.gradients.put_own(k, own)
