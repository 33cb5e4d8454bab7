"""The gradients of a node on the wire, as the phase's exchange has them, with error feedback at both ends.

    phone    gradients + residual ──compress──▶ push ─┐
    tablet   gradients + residual ──compress──▶ push ─┴▶ sum + residual ──compress──▶ pull ──▶ all update with the same

What a node keeps is a part of the sum that no update has taken yet, wherever it is kept. So nodes may go and come:
what those that no longer exchange a layer had left out is added by the first node that holds it, and once gradients
travel as they are, or no longer travel, what was left out goes with the next of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palmette.compress.codec import exchange_coder
from palmette.compress.error_feedback import RESIDUAL, ErrorFeedback, saved_memories, saved_name
from palmette.cost.replicas import holds_tie
from palmette.cost.steps import Piece
from palmette.runtime.worker.instance_layers import InstanceLayers
from palmette.runtime.worker.messages import pack
from palmette.spec.plan import Phase

ByLayer = dict[int, Tensor]
"""By layer, the gradients of all its weights in one flat tensor."""


class GradientCoding:
    """Codes the gradients of the layers of a node, each weight by itself."""

    def __init__(self, phase: Phase, node: str, held: InstanceLayers, dtype: torch.dtype) -> None:
        self._phase, self._node, self._held, self._dtype = phase, node, held, dtype
        self._lossy = phase.exchange.kind.lossy
        self._feedback = ErrorFeedback(exchange_coder(phase.exchange))

    def with_residual(self, number: int, gradients: Tensor) -> Tensor:
        """The gradients of a layer, and what is still to be sent of earlier ones."""
        parts = list(self._split(number, gradients))
        late = [self._feedback.take_residual(name) for name, _ in parts]
        if all(each is None for each in late):
            return gradients
        added = [part if each is None else part + each.to(part) for (_, part), each in zip(parts, late, strict=True)]
        return torch.cat([each.reshape(-1) for each in added])

    def residual(self, number: int) -> Tensor | None:
        """What is still to be sent of a layer's earlier gradients; whoever takes it adds it to the next."""
        zeros = torch.zeros(sum(weight.numel() for weight in self._held.weights[number]), dtype=self._dtype)
        found = self.with_residual(number, zeros)
        return None if found is zeros else found

    def compress(self, number: int, gradients: Tensor) -> tuple[Tensor, Tensor]:
        """The message of a layer's gradients, and the gradients that arrive."""
        if not self._lossy:
            return pack([gradients]), gradients
        coded = [self._feedback.compress(name, part.cpu()) for name, part in self._split(number, gradients)]
        return torch.cat([message for message, _ in coded]), torch.cat([each.reshape(-1) for _, each in coded])

    def extract(self, numbers: Sequence[int], message: Tensor, piece: Piece | None = None) -> ByLayer:
        """The gradients of layers, or a piece of them, in a message."""
        found: ByLayer = {}
        sizes = [self._layer_bytes(number, piece) for number in numbers]
        for number, part in zip(numbers, torch.split(message, sizes), strict=True):
            found[number] = self._extracted(number, part) if self._lossy else part.view(self._dtype)
        return found

    def bytes_of(self, numbers: Sequence[int], piece: Piece | None = None) -> int:
        """The length of the message for the gradients of layers, or a piece of them."""
        return sum(self._layer_bytes(number, piece) for number in numbers)

    def _extracted(self, number: int, message: Tensor) -> Tensor:
        coder, dtype, weights = self._feedback.coder, self._dtype, self._held.weights[number]
        parts = torch.split(message, [coder.bytes_of(tuple(weight.shape), dtype) for weight in weights])
        found = [coder.extract(part, tuple(w.shape), dtype) for part, w in zip(parts, weights, strict=True)]
        return torch.cat([each.reshape(-1) for each in found])

    def _layer_bytes(self, number: int, piece: Piece | None) -> int:
        coder, dtype = self._feedback.coder, self._dtype
        if piece is not None:
            begin, end = piece.span(sum(weight.numel() for weight in self._held.weights[number]))
            return (end - begin) * dtype.itemsize
        return sum(coder.bytes_of(tuple(weight.shape), dtype) for weight in self._held.weights[number])

    def _split(self, number: int, gradients: Tensor) -> Sequence[tuple[str, Tensor]]:
        """The gradients of each weight of a layer, by its first name here."""
        weights = self._held.weights[number]
        parts = torch.split(gradients, [weight.numel() for weight in weights])
        names = [self._held.names(weight, number)[0] for weight in weights]
        return [(name, part.view_as(w)) for name, part, w in zip(names, parts, weights, strict=True)]

    def state(self) -> dict[str, Tensor]:
        """What this node has left out, as it is saved: under every name that a weight has here."""
        found: dict[str, Tensor] = {}
        for number in self._held.weights:
            for weight in self._held.weights[number]:
                names = self._held.names(weight, number)
                memory = self._feedback.memories.get(names[0], {})
                found |= {saved_name(name, self._node, key): v for name in names for key, v in memory.items()}
        return found

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue with what was saved of this node, and of those that no longer exchange a layer."""
        for number in self._held.weights:
            nodes = _exchanging_nodes(self._phase, number, self._held.tied)
            for weight in self._held.weights[number]:
                names = self._held.names(weight, number)
                memory = self._feedback.memories.setdefault(names[0], {})
                for node, key, value in saved_memories(state, names):
                    if node == self._node:
                        memory[key] = value + memory[key] if key == RESIDUAL and key in memory else value
                    elif node not in nodes and nodes[0] == self._node and key == RESIDUAL:
                        memory[key] = memory[key] + value if key in memory else value


def _exchanging_nodes(phase: Phase, number: int, ties: Sequence[Sequence[int]]) -> list[str]:
    """The nodes that have gradients of a layer or tie, in the plan's order; and where these meet."""
    layers = (number,) if number <= phase.depth else ties[number - phase.depth - 1]
    nodes = list(dict.fromkeys(each.node for each in phase.instances if holds_tie(each.layers, layers)))
    return [*nodes, phase.meet] if phase.meet is not None and len(nodes) > 1 else nodes
