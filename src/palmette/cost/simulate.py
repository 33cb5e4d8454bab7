"""One iteration of a phase on the event clock: operations with the times of a profile on the links of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, assert_never

from palmette.cost.clock import Graph, Timing, play
from palmette.cost.energy import load, node_energy_j
from palmette.cost.operations import iteration_steps, trees, with_sizes
from palmette.cost.prices import NodePrice
from palmette.cost.routes import Route, Routes
from palmette.cost.seconds import Seconds
from palmette.cost.sizes import Sizes
from palmette.cost.steps import REDUCTIONS, Iteration, Kind, Step, Steps
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile, Table
from palmette.spec.tree import Instance

_MOST_PREPARED = 1024
TimedStep = tuple[Step, float, float, float]  # an operation, the bytes that it carries, its start and its end


class _Prepared(NamedTuple):
    """Operations as the clock plays them; phases that differ only in their samples share one."""

    instances: Sequence[Instance]
    steps: Steps
    graph: Graph
    latencies_s: list[float]


class PhaseSimulator:
    """Plays phases for one profile and one cluster."""

    def __init__(self, profile: Profile, cluster: Cluster) -> None:
        self.profile, self.cluster = profile, cluster
        self.routes = Routes(cluster)
        self._index = {name: k for k, name in enumerate(cluster.nodes)}
        self._limits = [node.limits.cpu_share for node in cluster.nodes.values()]
        self._seconds: dict[tuple[str, float], Seconds] = {}
        self._sizes: dict[float, Sizes] = {}
        self._prepared: dict[tuple[object, ...], _Prepared] = {}

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

    def play_step(self, phase: Phase) -> tuple[Iteration, Timing]:
        """An iteration under ``step``; what is prepared for a phase serves again for others with the same instances."""
        prepared = self._prepared_for(phase)
        made = with_sizes(prepared.steps, phase, self.sizes(phase.pruning))
        return made, self._play(prepared, phase, made)

    def play(self, phase: Phase, made: Iteration) -> Timing:
        """When each operation of an iteration of a phase starts and ends."""
        return self._play(self._prepare(phase, made.steps), phase, made)

    def _prepared_for(self, phase: Phase) -> _Prepared:
        feeds = [(source.node, source.into) for source in phase.sources]
        key = (id(phase.instances), phase.pruning, phase.meet, phase.batch_norm, *feeds)
        known = self._prepared.get(key)
        if known is None:
            if len(self._prepared) > _MOST_PREPARED:
                self._prepared.clear()
            steps = iteration_steps(phase, self.sizes(phase.pruning), self.routes)
            known = self._prepared[key] = self._prepare(phase, steps)
        return known

    def _prepare(self, phase: Phase, steps: Steps) -> _Prepared:
        graph, latencies_s = Graph(), [0.0] * len(steps)
        for number, step in enumerate(steps):
            if step.to is not None:
                route = self.route(step.node, step.to)
                graph.add_transfer(step.after, route.resources)
                latencies_s[number] = route.latency_s
            elif step.kind in REDUCTIONS:
                graph.add_transfer(step.after, ())
            else:
                graph.add_call(step.after, self._index[step.node], self._share(phase, step))
        return _Prepared(phase.instances, steps, graph, latencies_s)

    def _play(self, prepared: _Prepared, phase: Phase, made: Iteration) -> Timing:
        seconds = prepared.latencies_s.copy()
        for number, call_s in self.call_seconds(phase, made).items():
            seconds[number] = call_s
        bits = [8 * size for size in made.size_bytes]
        return play(prepared.graph, seconds, bits, self._limits, self.routes.capacities)

    def call_seconds(self, phase: Phase, made: Iteration) -> dict[int, float]:
        """How long each call of an iteration lasts with its share of the CPU, by its number."""
        calls = [(k, step) for k, step in enumerate(made.steps) if step.to is None and step.kind not in REDUCTIONS]
        if not calls:
            return {}  # nodes that only send something need not be in the profile
        places = [(self.seconds(i.node, phase.pruning), *i.layers, i.cpu_share) for i in phase.instances]
        return {k: self._call_s(phase, step, places[step.instance], made.samples[step.instance]) for k, step in calls}

    def _call_s(self, phase: Phase, step: Step, place: tuple[Seconds, int, int, float], samples: int) -> float:
        seconds, first, last, share = place
        match step.kind:
            case Kind.FORWARD:
                if step.span is not None:
                    return seconds.forward_span_s(step.span, samples) / share
                return seconds.forward_s(first, last, samples) / share
            case Kind.BACKWARD:
                if step.span is not None:
                    return seconds.backward_span_s(step.span, samples) / share
                return seconds.backward_s(first, last, samples) / share
            case Kind.UPDATE:
                if phase.sync_kind.has_server:  # the parameter server's is no instance's
                    seconds, share = self.seconds(step.node, phase.pruning), self._share(phase, step)
                return sum([seconds.update_s(*run) for run in step.layers or ((first, last),)]) / share
            case Kind.AVERAGE | Kind.COMBINE:
                return 0.0
            case Kind.DATA | Kind.OUTPUT | Kind.GRADIENT | Kind.STATISTICS | Kind.TOTALS | Kind.PUSH | Kind.PULL:
                raise AssertionError(f"{step.kind} is a transfer, not a call")
        assert_never(step.kind)

    def route(self, a: str, b: str) -> Route:
        """The route between two nodes that ``check`` has found to be joined."""
        route = self.routes.between(a, b)
        assert route is not None, f"check() refuses a plan in which {a} and {b} cannot talk"
        return route

    def node_prices(self, phase: Phase, hosts: list[str], timed: list[TimedStep]) -> dict[str, NodePrice]:
        """Each host's part in operations that were played."""
        nodes = {name: NodePrice() for name in hosts}
        calls: dict[str, list[tuple[float, float, float]]] = {}
        shares, between = [instance.cpu_share for instance in phase.instances], self.routes.between
        serves = phase.sync_kind.has_server
        for step, size, start, end in timed:
            if step.to is not None:
                sender, route = nodes[step.node], between(step.node, step.to)
                sender.sent_bytes += size
                nodes[step.to].received_bytes += size
                sender.sending_j += size * 8 * (route.energy_j_per_bit if route else 0.0)
            elif step.kind not in REDUCTIONS:
                share = self._share(phase, step) if serves else shares[step.instance]
                calls.setdefault(step.node, []).append((start, end, share))
        for name, times in calls.items():
            power = self.cluster.nodes[name].power
            nodes[name].busy_s, nodes[name].effort_s = load(times, power.exponent if power else 1.0)
        return nodes

    def _share(self, phase: Phase, step: Step) -> float:
        if step.kind is Kind.UPDATE and phase.sync_kind.has_server:  # the parameter server's is no instance's
            return self._limits[self._index[step.node]]
        return phase.instances[step.instance].cpu_share

    def node_energy_j(self, name: str, price: NodePrice, time_s: float) -> float | None:
        """Joules of a node over ``time_s``, None where its power is not known."""
        power = self.cluster.nodes[name].power
        return None if power is None else node_energy_j(power, time_s, price.effort_s) + price.sending_j

    def energy_j(self, nodes: dict[str, NodePrice], time_s: float) -> float | None:
        """Joules of nodes over ``time_s``, None where the power of one is not known."""
        parts = [self.node_energy_j(n, price, time_s) for n, price in nodes.items()]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None


def timed_steps(made: Iteration, played: Timing) -> list[TimedStep]:
    """Operations with their bytes, start and end."""
    return list(zip(made.steps, made.size_bytes, played.start_s, played.end_s, strict=True))


def steps_by_tree(phase: Phase, timed: list[TimedStep]) -> list[tuple[Phase, list[TimedStep]]]:
    """The trees of a phase, each with its operations."""
    parts: list[tuple[Phase, list[TimedStep]]] = [(tree, []) for tree in trees(phase)]
    own = {instance.id: rows for tree, rows in parts for instance in tree.instances}
    for row in timed:
        own[phase.instances[row[0].instance].id].append(row)
    return parts
