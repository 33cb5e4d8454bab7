"""``async`` on a node: a parameter server, and workers that pull weights and push gradients.

A step of a tree takes one snapshot of the server's weights for all its instances, also for those on the server's own
node. What batch norm and the like keep travels with the gradients; the server keeps the last that arrived.

    server   snapshot ──▶ pull …               … push ──▶ update
    worker                └─▶ forward ▶ backward ─┘
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from torch import Tensor, nn

from palmette.runtime.options import Options
from palmette.runtime.program import Operation, Program, numbers_of
from palmette.runtime.sync.base import Given, Stock, given_state, optimizer_of, wire_of
from palmette.runtime.worker.actions import Agreement, TrainingActions
from palmette.runtime.worker.compute import Compute, trained_layers
from palmette.runtime.worker.executor import Actions, Values
from palmette.runtime.worker.messages import buffers_of, load_into, pack, packed_bytes, state_of, unpack, weights_of
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance

if TYPE_CHECKING:
    from palmette.runtime.worker.worker import Setup

C = TypeVar("C", bound=Compute)
State = dict[int, list[Tensor]]  # of each layer its weights, then its buffers
ByLayer = Mapping[int, list[Tensor]]


def whole_network(node: str, depth: int) -> Phase:
    """All layers as one instance on a node."""
    source = Feed(node=node, samples=1, into="server")
    return Phase(sources=(source,), instances=(Instance(id="server", layers=(1, depth), node=node),))


class ParameterServer:
    """The weights of the whole network, and the optimizer that updates them."""

    def __init__(self, node: str, layers: Mapping[int, nn.Module], options: Options, device: str) -> None:
        self._depth = max(layers)
        self.compute = Compute(whole_network(node, self._depth), node, layers, options, device)
        self._lock = threading.Lock()

    def snapshot(self, into: State) -> None:
        """Write down the weights and buffers of this moment: over those of an earlier one, if there are any."""
        with self._lock:
            for number, layer in self.compute.layers.items():
                now = [tensor.detach() for tensor in state_of([layer])]
                if number in into:
                    load_into(into[number], now)
                else:
                    into[number] = [tensor.clone() for tensor in now]

    def update(self, gradients: ByLayer, buffers: ByLayer) -> None:
        """Update with the gradients of a step, one a weight, and keep its buffers."""
        with self._lock:
            self.compute.take_gradients(0, gradients)
            self.compute.update(0)
            for number, values in buffers.items():
                load_into(buffers_of(self.compute.layers[number]), values)

    def state(self, layers: Sequence[int], after: int | None = None) -> Given:
        """Weights and the optimizer's state, as of one moment."""
        with self._lock:
            return given_state(self.compute, layers)


class Snapshots:
    """The server's weights as a tree's steps see them: one snapshot a step, taken when it is first asked for."""

    def __init__(self, server: ParameterServer) -> None:
        self._server, self._lock = server, threading.Lock()
        self._iteration: int | None = None
        self._state: State = {}

    def at(self, iteration: int) -> State:
        """The snapshot of a step."""
        with self._lock:
            if iteration != self._iteration:
                self._server.snapshot(self._state)  # steps take turns: nobody looks at the last one any more
                self._iteration = iteration
            return self._state


class HomeCompute(Compute):
    """An instance on the server's node: it computes with the snapshot of the step, not with what changes meanwhile."""

    snapshots: Snapshots

    def forward(self, k: int, inputs: Sequence[Tensor], labels: Sequence[Tensor], iteration: int) -> Tensor:
        """The output of an instance; what backward needs is kept."""
        load_into(state_of(self.layers.values()), _flat(self.snapshots.at(iteration), self.layers))
        return super().forward(k, inputs, labels, iteration)


@dataclass(frozen=True)
class Pushed:
    """What an instance gives to the server: gradients and buffers by layer."""

    gradients: ByLayer
    buffers: ByLayer

    def tensors(self) -> list[Tensor]:
        """Gradients, then buffers."""
        return [tensor for each in (self.gradients, self.buffers) for parts in each.values() for tensor in parts]


def pushed_by(compute: Compute, k: int, numbers: Sequence[int]) -> Pushed:
    """What an instance gives after its backward pass."""
    known = trained_layers(compute.layers, [(number, number) for number in numbers])
    gradients = {n: compute.kept_gradients(k, n) for n in known}
    return Pushed(gradients, {n: buffers_of(compute.layers[n]) for n in numbers})


class Pulling(Agreement):
    """A worker away from the server: pulls weights before forward, pushes gradients after backward."""

    def __init__(self, program: Program, computes: Mapping[int, Compute]) -> None:
        self._phase, self._computes = program.phase, computes

    def message(self, operation: Operation, values: Values, iteration: int) -> Tensor:
        """Gradients, then buffers."""
        k = operation.instance
        return pack(pushed_by(self._computes[k], k, numbers_of(operation.layers)).tensors())

    def message_bytes(self, operation: Operation) -> int:
        """The bytes of an instance's weights and buffers."""
        return packed_bytes(self._state(operation))

    def arrived(self, operation: Operation, message: Tensor) -> None:
        """Take the pulled weights."""
        state = self._state(operation)
        load_into(state, unpack(message, state))

    def _state(self, operation: Operation) -> list[Tensor]:
        return state_of(self._computes[operation.instance].layers.values())


class Serving(Agreement):
    """The server's end of a tree's steps."""

    def __init__(
        self, program: Program, computes: Mapping[int, Compute], server: ParameterServer, snapshots: Snapshots
    ) -> None:
        self._computes, self._server, self._snapshots = computes, server, snapshots
        self._phase = program.phase
        self._layers = server.compute.layers
        self._backwards = {o.number: o.instance for o in program.operations if o.op == "backward"}

    def call(self, operation: Operation, values: Values) -> None:
        """Add up the gradients of the tree's instances, in the plan's order, and update."""
        gradients: dict[int, list[Tensor]] = {}
        buffers: dict[int, list[Tensor]] = {}
        for need in operation.after:
            given = self._own(self._backwards[need]) if need in self._backwards else values[need]
            for number, parts in given.gradients.items():
                before = gradients.get(number)
                gradients[number] = parts if before is None else [a + b for a, b in zip(before, parts, strict=True)]
            buffers |= given.buffers
        self._server.update(gradients, buffers)

    def _own(self, k: int) -> Pushed:
        return pushed_by(self._computes[k], k, numbers_of([self._phase.instances[k].layers]))

    def message(self, operation: Operation, values: Values, iteration: int) -> Tensor:
        """The weights and buffers that an instance pulls."""
        return pack(_flat(self._snapshots.at(iteration), numbers_of(operation.layers)))

    def message_bytes(self, operation: Operation) -> int:
        """The bytes of an instance's gradients and buffers."""
        return packed_bytes(self._like(operation).tensors())

    def arrived(self, operation: Operation, message: Tensor) -> Pushed:
        """Gradients and buffers by layer."""
        like = self._like(operation)
        parts = iter(unpack(message, like.tensors()))
        return Pushed(*({n: [next(parts) for _ in each[n]] for n in each} for each in (like.gradients, like.buffers)))

    def _like(self, operation: Operation) -> Pushed:
        """What an instance gives, but for the values: gradients are like weights."""
        gradients = {n: weights_of(self._layers[n]) for n in trained_layers(self._layers, operation.layers)}
        return Pushed(gradients, {n: buffers_of(self._layers[n]) for n in numbers_of(operation.layers)})


class AsyncRole:
    """A program for each tree that has an instance or a source here, or for all trees on the server's node."""

    def __init__(self, setup: Setup) -> None:
        self._setup, self._stock = setup, Stock(setup.layers)
        self._server: ParameterServer | None = None

    def actions(self, number: int, program: Program) -> Actions:
        """Take steps with the server's weights, or serve them."""
        setup = self._setup
        if program.phase.meeting_node == setup.node:
            return self._serving(number, program)
        computes = {k: self._made(Compute, number, program, k) for k in program.own}
        return TrainingActions(
            program, computes, setup.source.samples(program), wire_of(setup), Pulling(program, computes)
        )

    def _serving(self, number: int, program: Program) -> Actions:
        server = self._parameter_server(program.phase.depth)
        snapshots = Snapshots(server)
        computes = {k: self._made(HomeCompute, number, program, k) for k in program.own}
        for compute in computes.values():
            compute.snapshots = snapshots
        serving = Serving(program, computes, server, snapshots)
        samples = self._setup.source.samples(program)
        return TrainingActions(program, computes, samples, wire_of(self._setup), serving)

    def _parameter_server(self, depth: int) -> ParameterServer:
        if self._server is None:
            setup = self._setup
            layers = self._stock.take(range(1, depth + 1))
            self._server = ParameterServer(setup.node, layers, setup.options, setup.device)
            self._server.compute.load_optimizer_state(optimizer_of(setup))
        return self._server

    def _made(self, kind: type[C], tree: int, program: Program, k: int) -> C:
        setup = self._setup
        layers = self._stock.take(numbers_of([program.phase.instances[k].layers]))
        options = replace(setup.options, seed=setup.options.seed + tree)
        return kind(program.phase, setup.node, layers, options, setup.device, own=[k])

    def state(self, layers: Sequence[int], after: int | None = None) -> Given:
        """The server's."""
        assert self._server is not None, "only the server is asked"
        return self._server.state(layers)


def _flat(state: State, numbers: Iterable[int]) -> list[Tensor]:
    return [tensor for number in numbers for tensor in state[number]]
