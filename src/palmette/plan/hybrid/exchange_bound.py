"""What an iteration takes at least whose replicas exchange gradients: its chains with the exchange that follows them.

A node sends the gradients of layers when all of its paths have come back to them, and waits for the averages:

    path    ├── forward ──┼── backward ──┤
    node                                 ├ push ┼ pull ┤ update ┤

Whatever the microbatches: in each of them a path's calls take at least as long as for the path's own samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from palmette.cost.routes import Route
from palmette.plan.hybrid.paths import SamplePath, SearchState
from palmette.plan.hybrid.problem import HybridProblem

_Place = tuple[str | None, str]  # where gradients meet, or, where nothing is said, near which root they do
_Held = dict[int, tuple[str, ...]]  # the nodes of each layer that several hold: of those as near, the first counts


class _Chain(NamedTuple):
    """A path one operation after the other: when it has come back to each of its layers, and to the last of them."""

    returned: dict[int, tuple[str, float]]
    """The node of each layer, and seconds."""
    whole_s: float


class ExchangeBound:
    """Bounds states of one problem; holds the chains of paths and the routes used so far."""

    def __init__(self, problem: HybridProblem) -> None:
        prices, sizes = problem.task.evaluator, problem.task.evaluator.sizes()
        self._prices, self._problem, self._depth = prices, problem, problem.depth
        self._sizes = sizes
        self._bytes = [sizes.exchanged_bytes([(k, k)]) for k in range(1, problem.depth + 1)]
        self._exchanges = prices.optimizer.accumulate == 1
        self._chains: dict[SamplePath, _Chain] = {}
        self._routes: dict[tuple[str, str], Route] = {}

    def least_s(self, state: SearchState) -> float:
        """Seconds at least, with gradients meeting where the state says, by the rule near the first path's root."""
        chains = [self._chain(path) for path in state.paths]
        place = (state.meet, state.paths[0].runs[-1][0])
        return self._least_s(chains, [(self._shared(chains), place)])

    def least_anywhere_s(self, state: SearchState) -> float:
        """Seconds at least, wherever gradients meet and in whatever order the paths are."""
        chains = [self._chain(path) for path in state.paths]
        held = self._shared(chains)
        stated = [(held, (node, node)) for node in self._problem.meeting_nodes]
        return self._least_s(chains, [*stated, *self._ruled(held, chains, [path.runs[-1][0] for path in state.paths])])

    def _ruled(self, held: _Held, chains: list[_Chain], roots: list[str]) -> Iterator[tuple[_Held, _Place]]:
        """The rule near each root; where nodes are as near, also for each order of the paths, which decides then."""
        if not any(self._tied(nodes, root) for nodes in held.values() for root in roots):
            yield from ((held, (None, root)) for root in dict.fromkeys(roots))
            return
        for order in itertools.permutations(range(len(chains))):
            yield self._shared([chains[k] for k in order]), (None, roots[order[0]])

    def _tied(self, nodes: tuple[str, ...], root: str) -> bool:
        return len({self._prices.routes.hops(node, root) for node in nodes}) < len(nodes)

    def _shared(self, chains: list[_Chain]) -> _Held:
        return self._replicated(chains) if self._exchanges else {}

    def _least_s(self, chains: list[_Chain], ways: Iterable[tuple[_Held, _Place]]) -> float:
        """The least of some ways to share layers and to meet."""
        ways, whole_s = list(ways), max(chain.whole_s for chain in chains)
        held = ways[0][0]
        if not held:
            return whole_s
        returned: dict[tuple[str, int], float] = {}
        for chain in chains:
            for layer in held:
                node, seconds = chain.returned[layer]
                returned[node, layer] = max(returned.get((node, layer), 0.0), seconds)
        return max(whole_s, min(self._exchanged_s(each, returned, place) for each, place in ways))

    def _exchanged_s(self, held: _Held, returned: dict[tuple[str, int], float], place: _Place) -> float:
        """When the last averages have arrived."""
        (meet, root), hops = place, self._prices.routes.hops
        messages: dict[tuple[str, str], tuple[float, float]] = {}  # from when on, and bytes
        for layer, nodes in held.items():
            to = meet or min(nodes, key=lambda node: hops(node, root))
            for node in nodes:
                if node != to:
                    ready_s, size = messages.get((node, to), (0.0, 0.0))
                    messages[node, to] = max(ready_s, returned[node, layer]), size + self._bytes[layer - 1]
        both = [
            ready_s + self._route(node, to).transfer_s(size) + self._route(to, node).transfer_s(size)
            for (node, to), (ready_s, size) in messages.items()
        ]
        return max(both, default=0.0)

    def _replicated(self, chains: list[_Chain]) -> _Held:
        """The nodes of each layer that several hold and whose gradients meet."""
        holders: list[dict[str, None]] = [{} for _ in range(self._depth)]
        for chain in chains:
            for layer, (node, _) in chain.returned.items():
                holders[layer - 1][node] = None
        return {k: tuple(nodes) for k, nodes in enumerate(holders, 1) if len(nodes) > 1 and self._bytes[k - 1]}

    def _chain(self, path: SamplePath) -> _Chain:
        path = path._replace(microbatch=0)
        known = self._chains.get(path)
        if known is None:
            known = self._chains[path] = self._made(path)
        return known

    def _made(self, path: SamplePath) -> _Chain:
        """Forward along the runs and back, until no gradient comes back any more."""
        begins = [0, *(last for _, last in path.runs[:-1])]
        runs = [(node, before, last) for (node, last), before in zip(path.runs, begins, strict=True)]
        now, many, sizes = 0.0, path.samples, self._sizes
        for k, (node, before, last) in enumerate(runs):
            if k:
                now += self._route(runs[k - 1][0], node).transfer_s(self._message_bytes(before, many, back=False))
            elif node != path.source and self._problem.resend:
                now += self._route(path.source, node).transfer_s(many * sizes.sample_bytes(path.source))
            now += self._prices.seconds(node).forward_s(before + 1, last, many) / self._problem.cpu_shares[node]
        returned = {layer: (node, 0.0) for node, before, last in runs for layer in range(before + 1, last + 1)}
        for k, (node, before, last) in reversed(list(enumerate(runs))):
            if k + 1 < len(runs):
                if not sizes.has_gradient(last):
                    break
                now += self._route(runs[k + 1][0], node).transfer_s(self._message_bytes(last, many, back=True))
            seconds, share, begun_s = self._prices.seconds(node), self._problem.cpu_shares[node], now
            for layer in range(last, before, -1):
                now = begun_s + seconds.backward_s(layer, last, many) / share
                returned[layer] = node, now
        return _Chain(returned, now)

    def _message_bytes(self, layer: int, samples: int, *, back: bool) -> float:
        sizes, codec = self._sizes, self._problem.codec
        return (sizes.gradient_message_bytes if back else sizes.message_bytes)(layer, samples, codec)

    def _route(self, a: str, b: str) -> Route:
        route = self._routes.get((a, b))
        if route is None:
            route = self._routes[a, b] = self._prices.route(a, b)
        return route
