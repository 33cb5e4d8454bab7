"""Blocks of layers whose activations are computed again before their backward, and what is kept of them until then.

The second forward of a block must be the first one again: the same inputs and weights, the same masks of dropout
(``dropout`` draws them by sample), the same random numbers otherwise, the same statistics of batch norm where replicas
have shared them. And it must leave no trace: running statistics stay as the first forward has left them.

    forward    block 1 ─▶ block 2 ─▶ block 3          without a graph; the inputs are kept
    backward                        ─▶ block 3 again ─▶ its backward ─▶ block 2 again ─▶ …
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from palmette.cost.sizes import Run
from palmette.runtime.worker.batch_norm import AskTotals
from palmette.runtime.worker.dropout import Draw
from palmette.runtime.worker.saved_forward import PartedPass
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.data.base import LabelTree

Buffers = dict[str, Tensor]


class RecomputedBlock:
    """A block between its first forward and its second: the inputs, and what else the first one began with."""

    def __init__(self, run: Run, inputs: Bundle, modules: Sequence[nn.Module], device: torch.device) -> None:
        self.run, self.inputs = run, inputs
        self._modules, self._device = modules, device
        self._buffers: list[Buffers] = []
        self._random: RandomState | None = None
        self._totals: dict[tuple[int, int], Tensor] = {}

    @contextmanager
    def first(self) -> Iterator[None]:
        """Around the first forward: keep the buffers and the random state that it changes."""
        random = RandomState(self._device)
        before = [{name: buffer.clone() for name, buffer in _named_buffers(module)} for module in self._modules]
        yield
        self._random = None if random == RandomState(self._device) else random
        self._buffers = [_changed(own, module) for own, module in zip(before, self._modules, strict=True)]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Around the second forward: everything is as it was before the first, and afterwards as it is now."""
        with ExitStack() as stack:
            if self._random is not None:
                stack.enter_context(self._random.restored())
            for module, before in zip(self._modules, self._buffers, strict=True):
                stack.enter_context(_with_buffers(module, before))
            yield

    def remembering(self, ask: AskTotals) -> AskTotals:
        """Ask for the totals of a batch norm once: the second forward gets the answer of the first."""

        def asked(layer: int, number: int, sums: Tensor) -> Tensor:
            if (layer, number) not in self._totals:
                self._totals[layer, number] = ask(layer, number, sums)
            return self._totals[layer, number]

        return asked


@dataclass
class RecomputedPass(PartedPass):
    """A pass of an instance that recomputes, and its blocks that are left.

    ``divisor`` is what the samples of a root count, where that varies.
    """

    draw: Draw
    labels: LabelTree
    blocks: list[RecomputedBlock]
    divisor: float = 0.0

    @property
    def parts_left(self) -> int:
        """Its blocks."""
        return len(self.blocks)


class RandomState:
    """The state of PyTorch's own random numbers, of the CPU and of a device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._states = [torch.get_rng_state()]
        if device.type != "cpu":
            self._states.append(torch.get_device_module(device).get_rng_state())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RandomState) and all(map(torch.equal, self._states, other._states))

    __hash__ = None  # type: ignore[assignment]  # two states are compared, never looked up

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Draw from this state; afterwards, go on from where the random numbers are now."""
        now = RandomState(self._device)
        self._set()
        try:
            yield
        finally:
            now._set()

    def _set(self) -> None:
        torch.set_rng_state(self._states[0])
        for state in self._states[1:]:
            torch.get_device_module(self._device).set_rng_state(state)


def _named_buffers(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    return module.named_buffers(remove_duplicate=False)


def _changed(before: Buffers, module: nn.Module) -> Buffers:
    """Buffers as they were, of those that are others now."""
    now = dict(_named_buffers(module))
    return {name: buffer for name, buffer in before.items() if name in now and not torch.equal(buffer, now[name])}


@contextmanager
def _with_buffers(module: nn.Module, buffers: Buffers) -> Iterator[None]:
    """A module with other buffers; its own are neither read nor written."""
    owners = [(module.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in buffers]
    own = [owner.get_buffer(leaf) for owner, leaf in owners]
    for (owner, leaf), buffer in zip(owners, buffers.values(), strict=True):
        setattr(owner, leaf, buffer)
    try:
        yield
    finally:
        for (owner, leaf), buffer in zip(owners, own, strict=True):
            setattr(owner, leaf, buffer)
