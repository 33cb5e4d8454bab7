"""The parameter server of ``async``: the weights of the whole network, and the optimizer that updates them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from palmette.runtime.options import Options
from palmette.runtime.worker.compute import Compute
from palmette.runtime.worker.messages import buffers_of, load_into, state_of
from palmette.runtime.worker.setup import StateDicts
from palmette.runtime.worker.state import state_dicts
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance

LayerTensors = dict[int, list[Tensor]]  # by layer: its weights, then its buffers


ByLayer = Mapping[int, list[Tensor]]


def whole_network(node: str, depth: int) -> Phase:
    """A phase with all layers in one instance on a node."""
    source = Feed(node=node, samples=1, into="server")
    return Phase(sources=(source,), instances=(Instance(id="server", layers=(1, depth), node=node),))


class ParameterServer:
    """The weights of the whole network, and the optimizer that updates them."""

    def __init__(self, node: str, layers: Mapping[int, nn.Module], options: Options, device: str) -> None:
        self._depth = max(layers)
        self.compute = Compute(whole_network(node, self._depth), node, layers, options, device)
        self._lock = threading.Lock()

    def snapshot(self, into: LayerTensors) -> None:
        """Copy the current weights and buffers ``into`` a snapshot; reuses the tensors of an earlier one."""
        with self._lock:
            for number, layer in self.compute.layers.items():
                now = [tensor.detach() for tensor in state_of([layer])]
                if number in into:
                    load_into(into[number], now)
                else:
                    into[number] = [tensor.clone() for tensor in now]

    def update(self, gradients: ByLayer, buffers: ByLayer) -> None:
        """Update with the gradients of a step, one per weight, and store its buffers."""
        with self._lock:
            self.compute.gradients.put(0, gradients)
            self.compute.optimizers.update(0)
            for number, values in buffers.items():
                load_into(buffers_of(self.compute.layers[number]), values)

    def state(self, layers: Sequence[int], after: int | None = None) -> StateDicts:
        """Weights and optimizer state, read between two updates."""
        with self._lock:
            return state_dicts(self.compute, layers)


class Snapshots:
    """The server's weights as a tree's steps see them: one snapshot per step, taken on first use."""

    def __init__(self, server: ParameterServer) -> None:
        self._server, self._lock = server, threading.Lock()
        self._iteration: int | None = None
        self._state: LayerTensors = {}

    def at(self, iteration: int) -> LayerTensors:
        """The snapshot of a step."""
        with self._lock:
            if iteration != self._iteration:
                self._server.snapshot(self._state)  # steps follow one another: the last one is no longer in use
                self._iteration = iteration
            return self._state
