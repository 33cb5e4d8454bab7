"""A quick bound of a plan before the event clock plays it: the least that it can take, in seconds and joules.

It adds up what each node computes and what each link carries (outputs, gradients, and the gradients of replicated
layers to where they meet and back), each as if nothing had to wait. It takes a tenth of the clock's time; the search
does not play what cannot be better.

Replicated gradients count once per node: a node may add up those of its instances before it sends them. Where they
accumulate over several iterations, each bears its part of their exchange.

Where samples may be kept, the first epoch carries them and later ones may not, so each has a least time of its own. The
bound of the mean over E epochs is (first + (E − 1) · later) / E: no delivery sends less than all samples once, nothing
is sent in no time, and samples that travel ahead at most leave the links and nodes nothing to wait for.

A longer iteration never draws more power. So the least power of a state is that of the longest it can last: everything
one after the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from palmette.cost.routes import Route
from palmette.plan.hybrid.paths import SamplePath, SearchState
from palmette.plan.hybrid.pricing import Cost, Objective, Score
from palmette.plan.hybrid.problem import HybridProblem
from palmette.plan.hybrid.rates import NodeRates, node_rates
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.goal import is_monotone

_REMEMBERED = 4096
Holdings = dict[tuple[str, int, int], None]
"""The runs of layers that nodes hold: a node, the layer before the first, and the last."""


def effort(state: SearchState) -> int:
    """What a quick bound costs, in operations of the event clock that take as long."""
    return 8 + len(state.paths) // 8


class _ResourceUse(NamedTuple):
    """What the nodes of a state compute, what its links carry, and its joules beside those of idling and computing."""

    computing_s: dict[str, float]
    carried_bits: dict[int, float]
    """What links carry in every epoch."""
    first_bits: dict[int, float]
    """What they carry in the first epoch beside that: samples that may be kept."""
    exchange_s: float
    """The longest way of gradients to where they meet and back."""
    exchanging_s: float
    """All of these ways, one after the other."""
    sending_j: float
    """In the mean over all epochs."""


class _AlongPaths(NamedTuple):
    """What paths ask of nodes, and of pairs of nodes in bits: in every epoch, and in the first beside that."""

    computing_s: dict[str, float]
    carried: dict[tuple[str, str], float]
    first: dict[tuple[str, str], float]
    held: Holdings


def _sum_over(hosts: list[str], load: _ResourceUse, time_s: float, rates: dict[str, NodeRates]) -> float:
    """Energy, money or carbon; what is sent counts as if the node with the lowest rate had sent it."""
    idle = sum([rates[name].idle for name in hosts])
    sending = min([rates[name].sending for name in hosts])
    computing = sum([seconds * rates[name].busy for name, seconds in load.computing_s.items()])
    return time_s * idle + load.sending_j * sending + computing


def _is_power(objective: Objective) -> bool:
    return tuple(objective.weights) == ("power",)


class QuickBound:
    """Bounds states; holds sums of layer times and sizes, and the routes used so far."""

    def __init__(self, problem: HybridProblem) -> None:
        prices, sizes = problem.task.evaluator, problem.task.evaluator.sizes()
        self._prices = prices
        self._busy = {
            name: [(a + b) / share for a, b in zip(times.forward, times.backward, strict=True)]
            for name, share in problem.cpu_shares.items()
            for times in [prices.seconds(name)]
        }
        self._fixed = {
            name: [
                sum(each) / share for each in zip(times.forward_call, times.backward_call, times.update, strict=True)
            ]
            for name, share in problem.cpu_shares.items()
            for times in [prices.seconds(name)]
        }
        ratio = CODEC_KINDS[problem.codec].ratio  # without scales and labels: it is a lower bound
        self._bits = [0.0, *(8 * each * ratio for each in sizes.output_bytes[1:])]
        self._plain_bits = [0.0, *(8 * each for each in sizes.output_bytes[1:])]
        self._gradient_bits = [0.0, *(8 * each * ratio for each in sizes.gradient_bytes[1:])]
        self._plain_gradient_bits = [0.0, *(8 * each for each in sizes.gradient_bytes[1:])]
        self._sample_bits, self._kept, self._epochs = problem.sample_bits, problem.kept, problem.epochs
        self._waits_for_samples = problem.resend
        self._meeting_nodes = list(dict.fromkeys([*problem.cpu_shares, *problem.meeting_nodes]))
        self._accumulate = prices.optimizer.accumulate
        bits = [8 * sizes.exchanged_bytes([(k, k)]) for k in range(1, problem.depth + 1)]
        self._weight_bits = [each / self._accumulate for each in bits]
        self._energy = node_rates(problem, "energy")
        self._money = None if problem.task.cluster.currency is None else node_rates(problem, "cost")
        emits = any(problem.task.cluster.carbon_of(name) is not None for name in problem.task.cluster.nodes)
        self._carbon = node_rates(problem, "carbon") if emits else None
        self._routes: dict[tuple[str, str], Route] = {}
        self._known: dict[SearchState, _ResourceUse] = {}

    def least(self, state: SearchState, iteration_s: float = 0.0) -> Cost:
        """Seconds and joules that an iteration takes at least, or nearly so; known to take ``iteration_s`` or more."""
        return self._least(self._load(state), state, iteration_s)

    def _least(self, load: _ResourceUse, state: SearchState, iteration_s: float) -> Cost:
        chain_s = max(iteration_s, *map(self._alone_s, state.paths))
        return self._cost(load, state, max(chain_s, self._first_s(load)), max(chain_s, self._later_s(load)))

    def work_s(self, state: SearchState) -> float:
        """Seconds of the busiest node or link, in the mean over all epochs."""
        load = self._load(state)
        return (self._first_s(load) + (self._epochs - 1) * self._later_s(load)) / self._epochs

    def longest(self, state: SearchState) -> Cost:
        """Seconds and joules of an iteration that does one thing after the other."""
        return self._longest(self._load(state), state)

    def _longest(self, load: _ResourceUse, state: SearchState) -> Cost:
        longest_s = load.exchanging_s + sum(self._alone_s(path) + self._beside_s(path) for path in state.paths)
        return self._cost(load, state, longest_s, longest_s)

    def likely(self, state: SearchState) -> Cost:
        """Halfway between the least and what the slowest path takes alone: what microbatches may achieve."""
        load = self._load(state)
        alone_s = max(map(self._alone_s, state.paths))
        first_s, later_s = (
            (least_s + max(least_s, alone_s)) / 2 for least_s in (self._first_s(load), self._later_s(load))
        )
        return self._cost(load, state, first_s, later_s)

    def cannot_beat(self, state: SearchState, objective: Objective, score: Score) -> bool:
        """Whether a state is no better than a score, whatever the clock would say."""
        cost = self.longest(state) if _is_power(objective) else self.least(state)
        return (_is_power(objective) or all(map(is_monotone, objective.weights))) and objective.score(cost) >= score

    def values(self, state: SearchState, objectives: Iterable[Objective], iteration_s: float = 0.0) -> list[float]:
        """The best value that a state can have for each of some objectives of one quantity."""
        least, longest = self.least(state, iteration_s), self.longest(state)
        return [each.value(longest if _is_power(each) else least) for each in objectives]

    def values_anywhere(
        self, state: SearchState, objectives: Iterable[Objective], iteration_s: float = 0.0
    ) -> list[float]:
        """The same, wherever gradients meet: as if nothing were exchanged, or all of it with the farthest node."""
        paths = self._along_paths(state)
        (links, every_j), (first_links, first_j) = self._over_links(paths.carried), self._over_links(paths.first)
        farthest_s = self._farthest_s(paths.held)
        load = _ResourceUse(paths.computing_s, links, first_links, 0.0, farthest_s, every_j + first_j / self._epochs)
        least, longest = self._least(load, state, iteration_s), self._longest(load, state)
        return [each.value(longest if _is_power(each) else least) for each in objectives]

    def _farthest_s(self, held: Holdings) -> float:
        """All gradients of replicated layers to the node that is farthest from each that sends them, and back."""
        total_s = 0.0
        for nodes, bits in self._replicated(held):
            for node in nodes:
                total_s += max(self._there_and_back_s(node, place, bits) for place in self._meeting_nodes)
        return total_s

    def _there_and_back_s(self, node: str, place: str, bits: float) -> float:
        """Seconds of gradients to where they meet, and of their average back, whatever they accumulate over."""
        if node == place or self._prices.routes.between(node, place) is None:
            return 0.0
        both = (self._route(node, place), self._route(place, node))
        return sum(route.transfer_s(self._accumulate * bits / 8) for route in both)

    def _cost(self, load: _ResourceUse, state: SearchState, first_s: float, later_s: float) -> Cost:
        time_s = (first_s + (self._epochs - 1) * later_s) / self._epochs
        hosts = self._hosts(load, state)
        energy_j, money, carbon_g = (
            math.inf if rates is None else _sum_over(hosts, load, time_s, rates)
            for rates in (self._energy, self._money, self._carbon)
        )
        return Cost(time_s, energy_j, later_s, money, carbon_g)

    def _later_s(self, load: _ResourceUse) -> float:
        """Seconds of an iteration in an epoch in which all that may be kept has arrived."""
        capacities = self._prices.routes.capacities
        linked_s = max([bits / capacities[resource] for resource, bits in load.carried_bits.items()], default=0.0)
        return max(linked_s, load.exchange_s, *load.computing_s.values())

    def _first_s(self, load: _ResourceUse) -> float:
        """Seconds of an iteration of the first epoch."""
        capacities, every = self._prices.routes.capacities, load.carried_bits
        linked_s = [(bits + every.get(link, 0.0)) / capacities[link] for link, bits in load.first_bits.items()]
        return max(self._later_s(load), *linked_s, 0.0)

    def _hosts(self, load: _ResourceUse, state: SearchState) -> list[str]:
        """The nodes that take part."""
        hosts = dict.fromkeys([*load.computing_s, *(path.source for path in state.paths)])
        if state.meet is not None and load.exchange_s:
            hosts[state.meet] = None
        return list(hosts)

    def _load(self, state: SearchState) -> _ResourceUse:
        """What a state asks of nodes and links, kept since the search needs it twice."""
        known = self._known.get(state)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[state] = self._sum_up(state)
        return known

    def _along_paths(self, state: SearchState) -> _AlongPaths:
        """What the paths of a state ask of nodes and links."""
        computing_s: dict[str, float] = {}
        carried: dict[tuple[str, str], float] = {}
        first: dict[tuple[str, str], float] = {}
        held: Holdings = {}
        for path in state.paths:
            at, before, samples = path.source, 0, path.samples
            for node, last in path.runs:
                if node != at and not before:
                    sent = first if at in self._kept else carried
                    sent[at, node] = sent.get((at, node), 0.0) + samples * self._sample_bits[at]
                elif node != at:
                    plain = (at, node) in state.plain
                    bits = samples * (self._plain_bits if plain else self._bits)[before]
                    back = samples * (self._plain_gradient_bits if plain else self._gradient_bits)[before]
                    carried[at, node] = carried.get((at, node), 0.0) + bits
                    carried[node, at] = carried.get((node, at), 0.0) + back
                sums = self._busy[node]
                computing_s[node] = computing_s.get(node, 0.0) + samples * (sums[last] - sums[before])
                held[node, before, last] = None
                at, before = node, last
        return _AlongPaths(computing_s, carried, first, held)

    def _sum_up(self, state: SearchState) -> _ResourceUse:
        computing_s, carried, first, held = self._along_paths(state)
        exchange_s = exchanging_s = 0.0
        for (node, place), bits in self._messages(state, held).items():
            carried[node, place] = carried.get((node, place), 0.0) + bits
            carried[place, node] = carried.get((place, node), 0.0) + bits
            whole_s = self._there_and_back_s(node, place, bits)
            exchange_s = max(exchange_s, whole_s / self._accumulate)
            exchanging_s += whole_s
        (links, every_j), (first_links, first_j) = self._over_links(carried), self._over_links(first)
        sending_j = every_j + first_j / self._epochs
        return _ResourceUse(computing_s, links, first_links, exchange_s, exchanging_s, sending_j)

    def _over_links(self, carried: dict[tuple[str, str], float]) -> tuple[dict[int, float], float]:
        """What each link carries of bits from node to node, and the joules of sending them."""
        links: dict[int, float] = {}
        sending_j = 0.0
        for (a, b), bits in carried.items():
            route = self._route(a, b)
            sending_j += bits * route.energy_j_per_bit
            for resource in route.resources:
                links[resource] = links.get(resource, 0.0) + bits
        return links, sending_j

    def _replicated(self, held: Holdings) -> Iterator[tuple[dict[str, None], float]]:
        """Layers that the same several nodes hold: these, and the bits of their gradients."""
        cuts = sorted({cut for _, before, last in held for cut in (before, last)})
        for first, end in itertools.pairwise(cuts):
            nodes = dict.fromkeys(node for node, before, last in held if before <= first and end <= last)
            bits = sum(self._weight_bits[first:end])
            if len(nodes) > 1 and bits:
                yield nodes, bits

    def _messages(self, state: SearchState, held: Holdings) -> dict[tuple[str, str], float]:
        """Bits of the gradients of replicated layers that each node sends to where they meet, and gets back."""
        hops, home = self._prices.routes.hops, state.paths[0].runs[-1][0]
        messages: dict[tuple[str, str], float] = {}
        for nodes, bits in self._replicated(held):
            place = state.meet or min(nodes, key=lambda node: hops(node, home))
            for node in nodes:
                if node != place:
                    messages[node, place] = messages.get((node, place), 0.0) + bits
        return messages

    def _route(self, a: str, b: str) -> Route:
        route = self._routes.get((a, b))
        if route is None:
            route = self._routes[a, b] = self._prices.route(a, b)
        return route

    def _alone_s(self, path: SamplePath) -> float:
        """Seconds of a path alone, one operation after the other; samples that travel ahead have arrived."""
        total, at, before = 0.0, path.source, 0
        for node, last in path.runs:
            sums = self._busy[node]
            total += path.samples * (sums[last] - sums[before])
            if node != at and before:
                total += path.samples * self._bits[before] / self._route(at, node).bandwidth_bps
                total += path.samples * self._gradient_bits[before] / self._route(node, at).bandwidth_bps
            elif node != at and self._waits_for_samples:
                total += path.samples * self._sample_bits[at] / self._route(at, node).bandwidth_bps
            at, before = node, last
        return total

    def _beside_s(self, path: SamplePath) -> float:
        """Seconds of a path that count only where nothing overlaps: fixed parts, updates, latencies and raw samples."""
        total, at, before = 0.0, path.source, 0
        for node, last in path.runs:
            sums = self._fixed[node]
            total += sums[last] - sums[before]
            if node != at:
                total += self._route(at, node).latency_s + self._route(node, at).latency_s
                raw_bits = 0.0 if before else path.samples * self._sample_bits[at]
                total += raw_bits / self._route(at, node).bandwidth_bps
            at, before = node, last
        return total
