"""What a layer of a group costs on each node, and what its transfers cost, at a price of time.

With a price of λ watts for a second on its paths, a layer with work w costs min over ρ of λ w/ρ + D w ρ^(γ−1): layers
are coupled only by the nodes that they are on.

Calls side by side on a node draw D·(sum of their shares)^γ, more than each by itself. Over T seconds with W of work in
all, that is at least D·T·(W/T)^γ, and at least its tangent at any mean load s, which is linear in work and time:

    E ≥ D·γ·s^(γ−1)·W − D·(γ−1)·s^γ·T

So with ``loads`` a node costs like one of exponent 1 whose idle power is less, even negative.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from palmette.plan.righttrain.problem import Floats, RightTrainProblem

Ints = np.ndarray[Any, np.dtype[np.int64]]
_CACHE_SIZE = 4096


class LayerCost(NamedTuple):
    """A layer on each node: joules including the price of time, and seconds, both at the optimal share."""

    cost_j: Floats
    time_s: Floats


class TransferCost(NamedTuple):
    """Sending a layer's output and its gradient between any two nodes: seconds there and back, and joules of both."""

    there_s: Floats
    back_s: Floats
    joules: Floats

    @property
    def time_s(self) -> Floats:
        """Seconds of both."""
        return self.there_s + self.back_s


@dataclass
class LayerCosts:
    """Costs of layers and transfers among some nodes, cached."""

    problem: RightTrainProblem
    nodes: list[int]
    charge_idle_when_busy: bool = False
    """Whether nodes without a source pay idle power only while computing: where the set of nodes is not fixed."""
    loads: tuple[float, ...] = ()
    """The mean load of each node whose tangent counts, 0 where each instance counts by its own share; empty for all."""
    _layers: dict[tuple[int, int, float, int], LayerCost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problem, nodes = self.problem, self.nodes
        self._forward_s, self._forward_call_s = problem.forward_s[nodes], problem.forward_call_s[nodes]
        self._backward_s, self._backward_call_s = problem.backward_s[nodes], problem.backward_call_s[nodes]
        self._update_s = problem.update_s[nodes]
        self.limit, self.exponent = problem.limit[nodes], np.maximum(problem.exponent[nodes], 1.0)
        self.dynamic_w = problem.dynamic_w[nodes] * self.limit ** np.minimum(problem.exponent[nodes] - 1, 0.0)
        self.idle_w = problem.idle_w[nodes]
        if any(self.loads):
            self._take_tangents(np.array(self.loads))
        square = np.ix_(nodes, nodes)
        self._s_per_byte, self._latency_s, self._j_per_byte = (
            problem.s_per_byte[square],
            problem.latency_s[square],
            problem.j_per_byte[square],
        )
        self._sending = [self._send(layer) for layer in range(problem.depth)]
        self._sending_both = [(fixed.time_s, each.time_s, each.joules) for fixed, each in self._sending]
        data_owners = set(problem.feed_nodes)
        idle = [
            0.0 if node in data_owners or not self.charge_idle_when_busy else problem.idle_w[node] for node in nodes
        ]
        self._idle_when_busy_w = np.array(idle)

    def _take_tangents(self, loads: Floats) -> None:
        """Count the power of all calls of a node together, by the tangent at its mean load."""
        power = self.exponent - 1
        self.idle_w = self.idle_w - self.dynamic_w * power * loads**self.exponent
        self.dynamic_w = np.where(loads > 0, self.dynamic_w * self.exponent * loads**power, self.dynamic_w)
        self.exponent = np.where(loads > 0, 1.0, self.exponent)

    def layer(self, layer: int, samples: int, price_w: float, replicas: int) -> LayerCost:
        """One of so many replicas of a layer, with so many samples, at a price of time."""
        key = (layer, samples, price_w, replicas)
        if key not in self._layers:
            if len(self._layers) > _CACHE_SIZE:
                self._layers.clear()
            self._layers[key] = self._layer(layer, samples, price_w, replicas)
        return self._layers[key]

    def layer_each(self, layer: int, samples: Ints, price_w: float, replicas: int) -> Floats:
        """The joules of the same for several numbers of samples, a row each: concave in them on every node."""
        return self._layer(layer, samples[:, None], price_w, replicas).cost_j

    def _layer(self, layer: int, samples: int | Ints, price_w: float, replicas: int) -> LayerCost:
        forward_s, backward_s, update_s = self.calls_s(layer, layer, samples)
        path_s = forward_s + backward_s
        dynamic_j = self.dynamic_w * (path_s + min_update_fraction(replicas) * update_s)
        watts = price_w + self._idle_when_busy_w
        with np.errstate(divide="ignore", invalid="ignore"):
            best = (watts * path_s / ((self.exponent - 1) * dynamic_j)) ** (1 / self.exponent)
        full = (self.exponent <= 1) | ~np.isfinite(best)
        share = np.where(full, self.limit, np.clip(best, 1e-6, self.limit))
        time_s = path_s / share
        with np.errstate(invalid="ignore"):
            cost_j = watts * time_s + dynamic_j * share ** (self.exponent - 1)
        impossible = ~np.isfinite(path_s)
        return LayerCost(np.where(impossible, np.inf, cost_j), np.where(impossible, np.inf, time_s))

    def calls_s(self, first: int, last: int, samples: int | Ints) -> tuple[Floats, Floats, Floats]:
        """Seconds of an instance's forward call, backward call and update on each node, with the whole CPU."""
        if first == last:  # most calls, without sums
            forward_s = self._forward_call_s[:, first] + samples * self._forward_s[:, first]
            backward_s = self._backward_call_s[:, first] + samples * self._backward_s[:, first]
            return forward_s, backward_s, self._update_s[:, first]
        layers = slice(first, last + 1)
        forward_s = self._forward_call_s[:, layers].sum(axis=1) + samples * self._forward_s[:, layers].sum(axis=1)
        backward_s = self._backward_call_s[:, layers].sum(axis=1) + samples * self._backward_s[:, layers].sum(axis=1)
        return forward_s, backward_s, self._update_s[:, layers].sum(axis=1)

    def update_s(self, layer: int) -> Floats:
        """Seconds of a layer's update on each node, with the whole CPU."""
        return self._update_s[:, layer]

    def transfer(self, layer: int, samples: int | Ints) -> TransferCost:
        """What sending a layer's output and its gradient takes between any two nodes."""
        fixed, each = self._sending[layer]
        return TransferCost(*(at + samples * more for at, more in zip(fixed, each, strict=True)))

    def transfer_j(self, layer: int, samples: int | Ints, price_w: float) -> Floats:
        """The joules of the same, including the price of time."""
        fixed_s, each_s, each_j = self._sending_both[layer]
        return time_cost_j(price_w, fixed_s) + samples * (time_cost_j(price_w, each_s) + each_j)

    def transfer_each(self, layer: int, samples: Ints, price_w: float) -> Floats:
        """The same for several numbers of samples: a table each."""
        return self.transfer_j(layer, samples[:, None, None], price_w)

    def _send(self, layer: int) -> tuple[TransferCost, TransferCost]:
        """What a transfer of a layer's output and its gradient takes at any size, and for each sample."""
        sizes = self.problem.task.evaluator.sizes()
        there, back = sizes.output_bytes[layer + 1], sizes.gradient_bytes[layer + 1]
        none, returns = np.zeros_like(self._latency_s), sizes.has_gradient(layer + 1)
        fixed = TransferCost(self._latency_s, self._latency_s if returns else none, none)
        back_s = back * self._s_per_byte.T if returns else none
        return fixed, TransferCost(there * self._s_per_byte, back_s, (there + back) * self._j_per_byte)

    def input_transfer(self, feed: int, samples: int | Ints) -> tuple[Floats, Floats]:
        """Seconds and joules of sending a feed's data to each node; infinite where private."""
        problem, node = self.problem, self.problem.feed_nodes[feed]
        size = samples * problem.output_bytes[0]
        time_s = problem.latency_s[node, self.nodes] + size * problem.s_per_byte[node, self.nodes]
        if problem.private[feed]:
            time_s = np.where(np.array(self.nodes) == node, time_s, np.inf)
        return time_s, size * problem.j_per_byte[node, self.nodes]


def min_update_fraction(replicas: int) -> float:
    """The least part of a layer's update per replica: a node with several replicas updates once."""
    return 1 / replicas


def time_cost_j(watts: float, time_s: Floats) -> Floats:
    """Seconds at a price; infinite ones stay infinite at a price of 0."""
    return watts * time_s if watts else np.where(np.isfinite(time_s), 0.0, np.inf)
