"""The price of a plan: one evaluator for the plans of every strategy.

It plays one iteration of each phase on the event clock and adds up time, energy, traffic and memory. An evaluator is
made once for a profile and a cluster; strategies then price thousands of phases with it.

    step    an iteration is the whole tree once, exchange of gradients included
    epoch   an epoch lasts as long as the slowest tree with its shard, plus the exchange of weights
    async   an iteration is one worker's step; its mean time is 1 / Σ of the workers' rates
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from palmette.cost.clock import Graph, Played, play
from palmette.cost.energy import load, node_energy_j
from palmette.cost.memory import Optimizer, peak_bytes
from palmette.cost.operations import (
    exchange,
    exchanges_weights,
    iteration,
    order_of_work,
    samples_by_instance,
    sized,
    trees,
    worker_step,
)
from palmette.cost.routes import Route, Routes
from palmette.cost.seconds import Seconds
from palmette.cost.shards import described_samples, shard_steps, used_fraction
from palmette.cost.sizes import Sizes
from palmette.cost.steps import MEETINGS, Iteration, Kind, Step, Steps
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile, Table
from palmette.spec.tree import Instance

_MOST_COURSES = 1024


@dataclass(slots=True)
class NodePrice:
    """A node's part: computing, what computing costs above idling, traffic, and the energy of what it sends."""

    busy_s: float = 0.0
    effort_s: float = 0.0
    sent_bytes: float = 0.0
    received_bytes: float = 0.0
    sending_j: float = 0.0

    def add(self, other: NodePrice, times: float) -> None:
        """Add ``times`` another price to this one."""
        self.busy_s += times * other.busy_s
        self.effort_s += times * other.effort_s
        self.sent_bytes += times * other.sent_bytes
        self.received_bytes += times * other.received_bytes
        self.sending_j += times * other.sending_j


@dataclass(slots=True)
class Price:
    """What a phase costs; energies are None where a node's power is not known.

    ``played`` is what the clock played: the whole phase, or the tree of each worker.
    """

    iteration_s: float
    iteration_j: float | None
    epoch_s: float
    epoch_j: float | None
    nodes: dict[str, NodePrice]
    epoch_parts: list[tuple[dict[str, NodePrice], float]]
    played: list[tuple[Phase, Iteration, Played]] = field(default_factory=list)

    @property
    def epoch_nodes(self) -> dict[str, NodePrice]:
        """Each node's part of an epoch: its parts of what an epoch consists of, each as often as it happens."""
        return _added(list(self.nodes), self.epoch_parts)


Happened = tuple[Step, float, float, float]  # an operation, the bytes that it carries, its start and its end


class _Course(NamedTuple):
    """An order of work as the clock plays it; phases that differ only in their samples share one."""

    instances: Sequence[Instance]
    steps: Steps
    graph: Graph
    latencies_s: list[float]


class Evaluator:
    """Prices phases of plans for one profile and one cluster."""

    def __init__(self, profile: Profile, cluster: Cluster, optimizer: Optimizer = "sgd") -> None:
        self.profile, self.cluster, self.optimizer = profile, cluster, optimizer
        self.routes = Routes(cluster)
        self._names = list(cluster.nodes)
        self._index = {name: k for k, name in enumerate(self._names)}
        self._limits = [node.limits.cpu_share for node in cluster.nodes.values()]
        self._seconds: dict[tuple[str, float], Seconds] = {}
        self._sizes: dict[float, Sizes] = {}
        self._courses: dict[tuple[object, ...], _Course] = {}

    def price(self, phase: Phase) -> Price:
        """The price of a phase that ``check`` finds nothing wrong with."""
        match phase.sync:
            case "step":
                return self._price_step(phase)
            case "epoch":
                return self._price_epoch(phase)
            case _:
                return self._price_async(phase)

    def peak_bytes(self, phase: Phase) -> dict[str, float]:
        """The memory that each node needs at most."""
        return peak_bytes(phase, self.sizes(phase.pruning), samples_by_instance(phase), self.optimizer)

    def sizes(self, pruning: float = 0.0) -> Sizes:
        """The bytes of the layers of the model with this fraction of its parameters removed."""
        if pruning not in self._sizes:
            self._sizes[pruning] = Sizes(self._table(pruning), self.profile.input_bytes)
        return self._sizes[pruning]

    def seconds(self, node: str, pruning: float = 0.0) -> Seconds:
        """The layer times of a node."""
        key = (node, pruning)
        if key not in self._seconds:
            self._seconds[key] = Seconds(self._table(pruning), node)
        return self._seconds[key]

    def prune_s(self, node: str, pruning: float) -> float:
        """Seconds that a node needs to prune the model down to this; 0 where the profile does not say."""
        times = self._table(pruning).nodes.get(node)
        return 0.0 if times is None or times.prune_s is None else times.prune_s

    def _table(self, pruning: float) -> Table:
        table = self.profile.variant(pruning)
        assert table is not None, "check() refuses a ratio that the profile does not have"
        return table

    def epoch_samples(self, phase: Phase) -> dict[str, int]:
        """Samples that an epoch takes from each node that owns a source."""
        taken: dict[str, int] = {}
        for source in phase.sources:
            owned = self.cluster.nodes[source.node].source
            everything = owned.samples if owned else source.samples
            if source.epoch_samples is None:
                taken[source.node] = everything
            else:
                taken[source.node] = min(everything, taken.get(source.node, 0) + source.epoch_samples)
        return taken

    def _price_step(self, phase: Phase) -> Price:
        course = self._course(phase)
        made = sized(course.steps, phase, self.sizes(phase.pruning))
        played = self._play(course, phase, made)
        nodes = self._nodes(phase, phase.nodes(), _happened(made, played))
        many = math.ceil(sum(self.epoch_samples(phase).values()) / phase.batch)
        time_s, energy_j = played.total_s, self._energy_j(nodes, played.total_s)
        epoch_j = None if energy_j is None else many * energy_j
        return Price(time_s, energy_j, many * time_s, epoch_j, nodes, [(nodes, many)], [(phase, made, played)])

    def _price_epoch(self, phase: Phase) -> Price:
        made = iteration(phase, self.sizes(phase.pruning), self.routes)
        played = self.played(phase, made)
        happened = _happened(made, played)
        nodes = self._nodes(phase, phase.nodes(), happened)
        parts: list[tuple[dict[str, NodePrice], float]] = []
        slowest_s = 0.0
        needed = self._steps(phase)
        for tree, own in _by_tree(phase, happened):
            steps = phase.local_epochs * max(needed[source.into] for source in tree.sources)
            slowest_s = max(slowest_s, steps * max(end for *_, end in own))
            parts.append((self._nodes(phase, tree.nodes(), own), steps))
        epoch_s = slowest_s + self._exchange_s(phase, parts)
        energy_j = self._energy_j(nodes, played.total_s)
        return Price(
            played.total_s,
            energy_j,
            epoch_s,
            self._energy_j(_added(list(nodes), parts), epoch_s),
            nodes,
            parts,
            [(phase, made, played)],
        )

    def epoch_s(self, phase: Phase, steps: Sequence[int]) -> float:
        """Seconds of an epoch of federated averaging in which each tree takes so many steps."""
        made = iteration(phase, self.sizes(phase.pruning), self.routes)
        happened = _happened(made, self.played(phase, made))
        ends = [max(end for *_, end in own) for _, own in _by_tree(phase, happened)]
        slowest_s = max(many * end for many, end in zip(steps, ends, strict=True))
        if not exchanges_weights(phase):
            return slowest_s
        return slowest_s + self.played(phase, exchange(phase, self.sizes(phase.pruning))).total_s

    def _steps(self, phase: Phase) -> dict[str, int]:
        """Steps that each instance which takes raw data needs to see its sources' shards once."""
        steps: dict[str, int] = {}
        for source, described in zip(phase.sources, described_samples(phase, self.cluster), strict=True):
            used = described * used_fraction(source.epoch_samples, described)
            steps[source.into] = max(steps.get(source.into, 0), shard_steps(used, source.samples))
        return steps

    def _exchange_s(self, phase: Phase, parts: list[tuple[dict[str, NodePrice], float]]) -> float:
        """Seconds of the exchange of weights, if an epoch ends with one; it is added to the epoch's parts."""
        if not exchanges_weights(phase):
            return 0.0
        made = exchange(phase, self.sizes(phase.pruning))
        played = self.played(phase, made)
        parts.append((self._nodes(phase, phase.nodes(), _happened(made, played)), 1))
        return played.total_s

    def _price_async(self, phase: Phase) -> Price:
        sizes = self.sizes(phase.pruning)
        workers = []
        for tree in trees(phase):
            made = worker_step(tree, sizes)
            workers.append((tree, made, self.played(tree, made)))
        rates = [1 / played.total_s if played.total_s else math.inf for _, _, played in workers]
        time_s = 1 / sum(rates)
        parts: list[tuple[dict[str, NodePrice], float]] = []
        for (tree, made, played), rate in zip(workers, rates, strict=True):
            often = rate * time_s if time_s else 1 / len(workers)
            parts.append((self._nodes(tree, tree.nodes(), _happened(made, played)), often))
        nodes = _added(phase.nodes(), parts)
        energy_j = self._energy_j(nodes, time_s)
        samples_a_step = sum(t.batch * r for (t, _, _), r in zip(workers, rates, strict=True)) / sum(rates)
        many = math.ceil(sum(self.epoch_samples(phase).values()) / samples_a_step) if time_s else 0
        epoch_j = None if energy_j is None else many * energy_j
        return Price(time_s, energy_j, many * time_s, epoch_j, nodes, [(nodes, many)], workers)

    def played(self, phase: Phase, made: Iteration) -> Played:
        """When each operation of a phase that was read off it starts and ends."""
        return self._play(self._prepared(phase, made.steps), phase, made)

    def passing(self, phase: Phase, made: Iteration) -> tuple[float, float | None]:
        """Seconds and joules of operations between the nodes of a phase, all of which take part from end to end."""
        played = self.played(phase, made)
        nodes = self._nodes(phase, phase.nodes(), _happened(made, played))
        return played.total_s, self._energy_j(nodes, played.total_s)

    def _course(self, phase: Phase) -> _Course:
        """The order of work of a phase; that of another with the very same instances serves again."""
        feeds = [(source.node, source.into) for source in phase.sources]
        key = (id(phase.instances), phase.pruning, phase.meet, phase.batch_norm, *feeds)
        known = self._courses.get(key)
        if known is None:
            if len(self._courses) > _MOST_COURSES:
                self._courses.clear()
            steps = order_of_work(phase, self.sizes(phase.pruning), self.routes)
            known = self._courses[key] = self._prepared(phase, steps)
        return known

    def _prepared(self, phase: Phase, steps: Steps) -> _Course:
        graph, latencies_s = Graph(), [0.0] * len(steps)
        for number, step in enumerate(steps):
            if step.to is not None:
                route = self.route(step.node, step.to)
                graph.add_transfer(step.after, route.resources)
                latencies_s[number] = route.latency_s
            elif step.kind in MEETINGS:
                graph.add_transfer(step.after, ())
            else:
                graph.add_call(step.after, self._index[step.node], self._share(phase, step))
        return _Course(phase.instances, steps, graph, latencies_s)

    def _play(self, course: _Course, phase: Phase, made: Iteration) -> Played:
        seconds = course.latencies_s.copy()
        for number, call_s in self.call_seconds(phase, made).items():
            seconds[number] = call_s
        bits = [8 * size for size in made.size_bytes]
        return play(course.graph, seconds, bits, self._limits, self.routes.capacities)

    def call_seconds(self, phase: Phase, made: Iteration) -> dict[int, float]:
        """How long each call of an iteration lasts with its share of the CPU, by its number."""
        if not any(step.to is None and step.kind not in MEETINGS for step in made.steps):
            return {}  # nodes that only hand something over need not be in the profile
        places = [(self.seconds(i.node, phase.pruning), *i.layers, i.cpu_share) for i in phase.instances]
        serves = phase.agreement.has_server
        found = {}
        for number, step in enumerate(made.steps):
            kind = step.kind
            if kind is Kind.FORWARD or kind is Kind.BACKWARD:
                seconds, first, last, share = places[step.instance]
                samples = made.samples[step.instance]
                if step.span is not None:
                    found[number] = seconds.span_s(kind, step.span, samples) / share
                elif kind is Kind.FORWARD:
                    found[number] = seconds.forward_s(first, last, samples) / share
                else:
                    found[number] = seconds.backward_s(first, last, samples) / share
            elif kind is Kind.UPDATE:
                seconds, first, last, share = places[step.instance]
                if serves:  # the parameter server's is no instance's
                    seconds, share = self.seconds(step.node, phase.pruning), self._share(phase, step)
                whole_s = 0.0
                for run in step.layers or ((first, last),):
                    whole_s += seconds.update_s(*run)
                found[number] = whole_s / share
        return found

    def route(self, a: str, b: str) -> Route:
        """The route between two nodes that ``check`` has found to be joined."""
        route = self.routes.between(a, b)
        assert route is not None, f"check() refuses a plan in which {a} and {b} cannot talk"
        return route

    def _nodes(self, phase: Phase, hosts: list[str], happened: list[Happened]) -> dict[str, NodePrice]:
        """Each host's part in what happened."""
        nodes = {name: NodePrice() for name in hosts}
        calls: dict[str, list[tuple[float, float, float]]] = {}
        shares, between = [instance.cpu_share for instance in phase.instances], self.routes.between
        serves = phase.agreement.has_server
        for step, size, start, end in happened:
            if step.to is not None:
                sender, route = nodes[step.node], between(step.node, step.to)
                sender.sent_bytes += size
                nodes[step.to].received_bytes += size
                sender.sending_j += size * 8 * (route.energy_j_per_bit if route else 0.0)
            elif step.kind not in MEETINGS:
                share = self._share(phase, step) if serves else shares[step.instance]
                calls.setdefault(step.node, []).append((start, end, share))
        for name, times in calls.items():
            power = self.cluster.nodes[name].power
            nodes[name].busy_s, nodes[name].effort_s = load(times, power.exponent if power else 1.0)
        return nodes

    def _share(self, phase: Phase, step: Step) -> float:
        if step.kind is Kind.UPDATE and phase.agreement.has_server:  # the parameter server's is no instance's
            return self._limits[self._index[step.node]]
        return phase.instances[step.instance].cpu_share

    def node_energy_j(self, name: str, price: NodePrice, time_s: float) -> float | None:
        """Joules of a node over ``time_s``, None where its power is not known."""
        power = self.cluster.nodes[name].power
        return None if power is None else node_energy_j(power, time_s, price.effort_s) + price.sending_j

    def _energy_j(self, nodes: dict[str, NodePrice], time_s: float) -> float | None:
        parts: Sequence[float | None] = [self.node_energy_j(n, price, time_s) for n, price in nodes.items()]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def _added(names: list[str], parts: list[tuple[dict[str, NodePrice], float]]) -> dict[str, NodePrice]:
    """Prices of nodes added up, each as often as it says."""
    total = {name: NodePrice() for name in names}
    for nodes, often in parts:
        for name, price in nodes.items():
            total[name].add(price, often)
    return total


def _happened(made: Iteration, played: Played) -> list[Happened]:
    return list(zip(made.steps, made.size_bytes, played.start_s, played.end_s, strict=True))


def _by_tree(phase: Phase, happened: list[Happened]) -> list[tuple[Phase, list[Happened]]]:
    """The trees of a phase, each with what happened in it."""
    parts: list[tuple[Phase, list[Happened]]] = [(tree, []) for tree in trees(phase)]
    own = {instance.id: rows for tree, rows in parts for instance in tree.instances}
    for row in happened:
        own[phase.instances[row[0].instance].id].append(row)
    return parts
