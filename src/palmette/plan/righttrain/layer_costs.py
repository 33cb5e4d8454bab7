"""What a layer of a group costs on each node, and what its samples cost on the way, at a price of time.

With a price of λ watts for a second on its paths, a layer with work w costs min over ρ of λ w/ρ + D w ρ^(γ−1): nothing
couples one layer to the next but the nodes that they are on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from palmette.plan.righttrain.problem import Floats, Ground

_MOST_KEPT = 4096


class Layered(NamedTuple):
    """Of a layer on each node: joules with time at its price, seconds of the shares that this is for."""

    cost_j: Floats
    time_s: Floats


@dataclass
class Costs:
    """The costs of layers and ways among some nodes; each is worked out once."""

    ground: Ground
    nodes: list[int]
    watts_when_busy: bool = False
    """Whether a node that owns no source costs its idle power while it computes: where no set of nodes is settled."""
    _layers: dict[tuple[int, int, float, int], Layered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ground, nodes = self.ground, self.nodes
        self._forward_s, self._forward_call_s = ground.forward_s[nodes], ground.forward_call_s[nodes]
        self._backward_s, self._backward_call_s = ground.backward_s[nodes], ground.backward_call_s[nodes]
        self._update_s = ground.update_s[nodes]
        self.limit, self.exponent = ground.limit[nodes], np.maximum(ground.exponent[nodes], 1.0)
        self.busy_w = ground.busy_w[nodes] * self.limit ** np.minimum(ground.exponent[nodes] - 1, 0.0)
        square = np.ix_(nodes, nodes)
        self._byte_s, self._latency_s, self._byte_j = (
            ground.byte_s[square],
            ground.latency_s[square],
            ground.byte_j[square],
        )
        own = {ground.feed_nodes[k] for k in range(len(ground.feed_nodes))}
        extra = [0.0 if node in own or not self.watts_when_busy else ground.idle_w[node] for node in nodes]
        self._extra_w = np.array(extra)

    def layer(self, layer: int, samples: int, price_w: float, replicas: int) -> Layered:
        """A layer with so many samples, at a price of time; one of so many replicas, see ``update_part``."""
        key = (layer, samples, price_w, replicas)
        if key not in self._layers:
            if len(self._layers) > _MOST_KEPT:
                self._layers.clear()
            self._layers[key] = self._layer(layer, samples, price_w, replicas)
        return self._layers[key]

    def _layer(self, layer: int, samples: int, price_w: float, replicas: int) -> Layered:
        forward_s, backward_s, update_s = self.calls_s(layer, layer, samples)
        path_s = forward_s + backward_s
        effort_j = self.busy_w * (path_s + update_part(replicas) * update_s)
        watts = price_w + self._extra_w
        with np.errstate(divide="ignore", invalid="ignore"):
            best = (watts * path_s / ((self.exponent - 1) * effort_j)) ** (1 / self.exponent)
        full = (self.exponent <= 1) | ~np.isfinite(best)
        share = np.where(full, self.limit, np.clip(best, 1e-6, self.limit))
        time_s = path_s / share
        with np.errstate(invalid="ignore"):
            cost_j = watts * time_s + effort_j * share ** (self.exponent - 1)
        impossible = ~np.isfinite(path_s)
        return Layered(np.where(impossible, np.inf, cost_j), np.where(impossible, np.inf, time_s))

    def calls_s(self, first: int, last: int, samples: int) -> tuple[Floats, Floats, Floats]:
        """Seconds of an instance's forward call, backward call and update on each node, with the whole CPU."""
        own = slice(first, last + 1)
        forward_s = self._forward_call_s[:, own] + samples * self._forward_s[:, own]
        backward_s = self._backward_call_s[:, own] + samples * self._backward_s[:, own]
        return forward_s.sum(axis=1), backward_s.sum(axis=1), self._update_s[:, own].sum(axis=1)

    def way(self, layer: int, samples: int) -> tuple[Floats, Floats]:
        """Seconds and joules of a layer's output and its gradient between any two of the nodes."""
        size = samples * self.ground.output_bytes[layer + 1]
        return 2 * (self._latency_s + size * self._byte_s), 2 * size * self._byte_j

    def data(self, feed: int, samples: int) -> tuple[Floats, Floats]:
        """Seconds and joules of a feed's data to each node; infinite where it may not go."""
        ground, node = self.ground, self.ground.feed_nodes[feed]
        size = samples * ground.output_bytes[0]
        time_s = ground.latency_s[node, self.nodes] + size * ground.byte_s[node, self.nodes]
        if ground.private[feed]:
            time_s = np.where(np.array(self.nodes) == node, time_s, np.inf)
        return time_s, size * ground.byte_j[node, self.nodes]


def update_part(replicas: int) -> float:
    """The part of a layer's update that each of its replicas makes at least: a node that holds several updates once."""
    return 1 / replicas
