"""What a window has changed in weights, on the wire: against weights that both ends have, with error feedback.

    begun       the weights that all replicas began the window with; replicas and the server have the same
    replica     weights − begun + residual ──compress──▶ push ─┐
    replica     weights − begun + residual ──compress──▶ push ─┴▶ mean − begun + residual ──compress──▶ pull ──▶ begun

A residual is saved with its owner, an instance or the server, and goes on only with the same owner of the same weight.
What others have left out is applied to the weights that all begin with (``settled``), as large as it would have been
in the mean: so nodes, windows and the network itself may change, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from palmette.compress.codec import exchange_coder
from palmette.compress.coders.base import Memory
from palmette.compress.error_feedback import (
    DIFFERENCES,
    RESIDUAL,
    ErrorFeedback,
    is_of_exchange,
    saved_memories,
    saved_name,
)
from palmette.cost.operations import exchanges_weights
from palmette.runtime.worker.weights import trainable_weights
from palmette.spec.exchange import Exchange
from palmette.spec.plan import Phase
from palmette.zoo.capture import NetworkLayer

SERVER = ""
"""Stands in place of an instance."""
SHARE = "share"
"""How much of the mean the weights of an instance make up."""


class CodedLayer(NamedTuple):
    """The message of a layer's weights, and the weights that arrive with it."""

    message: Tensor
    weights: list[Tensor]


class DifferenceCoding:
    """Codes the weights of layers as differences from those that the window began with; ``owner`` is an instance."""

    def __init__(
        self, exchange: Exchange, owner: str, layers: Mapping[int, nn.Module], saved: Mapping[str, Tensor]
    ) -> None:
        self._feedback, self._owner = ErrorFeedback(exchange_coder(exchange)), owner
        self._begun = {number: _copies(layer) for number, layer in layers.items()}
        for name in (name for weights in self._begun.values() for name in weights):
            own = {key: value for at, key, value in saved_memories(saved, [name], DIFFERENCES) if at == owner}
            self._feedback.memories[name] = {key: value for key, value in own.items() if key != SHARE}

    def compress(self, number: int, weights: Sequence[Tensor]) -> CodedLayer:
        """Code the weights that a layer has now, with what is still to be sent of earlier ones."""
        both = zip(self._begun[number].items(), weights, strict=True)
        coded = [self._compress(name, begun, weight) for (name, begun), weight in both]
        empty = torch.empty(0, dtype=torch.uint8)
        return CodedLayer(torch.cat([empty, *(message for message, _ in coded)]), [weight for _, weight in coded])

    def _compress(self, name: str, begun: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        difference, late = weight.detach().cpu() - begun, self._feedback.take_residual(name)
        message, arriving = self._feedback.compress(name, difference if late is None else difference + late)
        return message, begun + arriving

    def extract(self, number: int, message: Tensor) -> list[Tensor]:
        """The weights of a layer in a message."""
        coder, begun = self._feedback.coder, list(self._begun[number].values())
        parts = torch.split(message, [coder.bytes_of(tuple(each.shape), each.dtype) for each in begun])
        return [
            each + coder.extract(part, tuple(each.shape), each.dtype) for each, part in zip(begun, parts, strict=True)
        ]

    def bytes_of(self, number: int) -> int:
        """The length of the message for the weights of a layer."""
        coder = self._feedback.coder
        return sum(coder.bytes_of(tuple(each.shape), each.dtype) for each in self._begun[number].values())

    def begin(self, number: int, weights: Sequence[Tensor]) -> None:
        """Begin the next window with these weights of a layer, as all others do."""
        self._begun[number] = dict(zip(self._begun[number], weights, strict=True))

    def state(self) -> dict[str, Tensor]:
        """What was left out, as it is saved."""
        memories = self._feedback.memories.items()
        return {
            saved_name(name, self._owner, key, DIFFERENCES): value
            for name, memory in memories
            for key, value in memory.items()
        }


def _copies(layer: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().cpu().clone() for name, weight in trainable_weights(layer).items()}


def settled(
    layers: Sequence[NetworkLayer], state: Mapping[str, Tensor], phase: Phase
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The weights that change, and the state that remains, once what no owner in ``phase`` goes on with is applied."""
    kept = {name: value for name, value in state.items() if is_of_exchange(name, DIFFERENCES)}
    weights: dict[str, Tensor] = {}
    left = dict(state)
    for number, layer in enumerate(layers, 1) if kept else ():
        owners = _owners(phase, number)
        for name, value in layer.module.state_dict().items():
            gone: dict[str, Memory] = {}
            for owner, key, saved in saved_memories(kept, [name], DIFFERENCES):
                if owner not in owners:
                    gone.setdefault(owner, {})[key] = saved
                    del left[saved_name(name, owner, key, DIFFERENCES)]
            if gone:
                weights[name] = value + sum(_in_the_mean(owner, memory) for owner, memory in gone.items())
    return weights, left


def _in_the_mean(owner: str, memory: Memory) -> Tensor | float:
    """What an owner has left out, as large as it would have been in the mean."""
    share = 1.0 if owner == SERVER else float(memory.get(SHARE, torch.zeros(())))
    return share * memory[RESIDUAL] if RESIDUAL in memory else 0.0


def _owners(phase: Phase, number: int) -> set[str]:
    """Those that code the differences of a layer: the instances that send them, and the server."""
    coded = phase.exchange.kind.lossy and phase.sync_kind.averages_weights and exchanges_weights(phase)
    sending = phase.senders(number) if coded else []
    return {SERVER, *(each.id for each in sending)} if sending else set()
