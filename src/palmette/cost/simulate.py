"""Iterations of a phase on the event clock: operations with the times of a profile on the links of a cluster.

An iteration begins when all operations of the one before are done. Where samples travel ahead, those of the next
iteration are sent meanwhile, and give way to all other transfers; so a few iterations are played until the time between
two ends has settled. Where samples come late, faster and slower iterations may take turns: more are played, for a mean.

    samples    ├─ 1 ─┼─ 2 ─┤  ├─ 3 ─┤   ├─ 4 …
    iterations       ├── 1 ──┼── 2 ──┼── 3 ──┤
                               first, …   steady
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import truediv
from typing import assert_never

from palmette.cost.clock import Capacities, Graph, Timing, play
from palmette.cost.coding import coding_seconds
from palmette.cost.critical_path import least_s
from palmette.cost.delivery import Sent
from palmette.cost.energy import load, node_energy_j
from palmette.cost.looping import Loop, play_looping
from palmette.cost.operations import iteration_steps, partly_sent, with_sizes
from palmette.cost.optimizer import PLAIN_SGD, OptimizerCost
from palmette.cost.prepared import MARKS, PreparedSteps, repeated
from palmette.cost.prices import NodePrice
from palmette.cost.radio import radios_j
from palmette.cost.routes import Route, Routes
from palmette.cost.seconds import Seconds
from palmette.cost.sizes import Run, Sizes
from palmette.cost.steady import MEAN_OF, UNTIL_STEADY, WITH_TURNS, Steady, marks, may_differ
from palmette.cost.steps import REDUCTIONS, SAMPLES, Iteration, Kind, Step, Steps, TimedStep, is_background
from palmette.spec.cluster import Cluster
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile, Table

_MOST_PREPARED = 1024


class PhaseSimulator:
    """Plays phases for one profile and one cluster, with the exchanges that an optimizer needs.

    ``exchange`` is how gradients travel in phases that do not say so themselves. Links with a trace have its mean
    bandwidth, or, with ``moment_s``, all that it says from that moment on.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        optimizer: OptimizerCost = PLAIN_SGD,
        exchange: Exchange = PLAIN_EXCHANGE,
        moment_s: float | None = None,
    ) -> None:
        self.profile, self.cluster, self.optimizer, self.exchange = profile, cluster, optimizer, exchange
        self.moment_s = moment_s
        self.routes = Routes(cluster)
        self._index = {name: k for k, name in enumerate(cluster.nodes)}
        self._radios = {name: node.radio for name, node in cluster.nodes.items() if node.radio is not None}
        self._limits = [node.limits.cpu_share for node in cluster.nodes.values()]
        self._seconds: dict[tuple[str, float], Seconds] = {}
        self._sizes: dict[float, Sizes] = {}
        self._prepared: dict[tuple[object, ...], PreparedSteps] = {}

    def sizes(self, pruning: float = 0.0) -> Sizes:
        """The bytes of the layers of the model with this fraction of its parameters removed."""
        if pruning not in self._sizes:
            owned = {name: node.source.samples for name, node in self.cluster.nodes.items() if node.source}
            table, known = self._table(pruning), self.profile
            sent = (known.input_bytes, self._stored_bytes(), owned, self.exchange)
            self._sizes[pruning] = Sizes(table, *sent, float_bytes=known.float_bytes)
        return self._sizes[pruning]

    def _stored_bytes(self) -> dict[str, float]:
        """Bytes of a stored sample of each source: as the cluster says, else the profile, else the tensor's."""
        usual = self.profile.sample_bytes or self.profile.input_bytes
        sources = {name: node.source for name, node in self.cluster.nodes.items() if node.source is not None}
        return {name: source.sample_bytes or usual for name, source in sources.items()}

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

    def whole_step(self, phase: Phase) -> Iteration:
        """An iteration under ``step`` for which all samples are sent that travel at all."""
        return with_sizes(self._prepared_for(phase).steps, phase, self.sizes(phase.pruning))

    def play_step(self, phase: Phase, made: Iteration) -> Steady:
        """An iteration under ``step``; what is prepared for a phase serves again for others with the same instances."""
        if phase.ahead and any(
            size and step.kind is Kind.DATA for step, size in zip(made.steps, made.size_bytes, strict=True)
        ):
            return self._steady(phase, made)
        played = self._play(self._prepared_for(phase), phase, made)
        return Steady(made, played, played.total_s, (played.total_s,))

    def least_s(self, phase: Phase, sent: Sent | None = None) -> float:
        """Seconds that an iteration under ``step`` takes at least, without playing it.

        ``sent`` is what of samples and outputs has to be sent; all of them by default.
        """
        prepared, made = self._prepared_for(phase), self.whole_step(phase)
        made = partly_sent(made, phase, self.sizes(phase.pruning), sent)
        seconds = self._durations(phase, made, prepared.latencies_s.copy())
        return least_s(prepared.graph, seconds, self._bits(made), self._limits, self.routes.capacities)

    def _steady(self, phase: Phase, made: Iteration) -> Steady:
        prepared, mean_of = self._prepared_for(phase, UNTIL_STEADY), 1
        played, carried_s = self._play(prepared, phase, made, UNTIL_STEADY), self._longest_carried_s(prepared, made)
        sent_s, done_s = marks(made, played)
        if not self._varies and may_differ(sent_s, done_s, carried_s):
            played, mean_of = self._play(self._prepared_for(phase, WITH_TURNS), phase, made, WITH_TURNS), MEAN_OF
            _, done_s = marks(made, played)
        last = slice(-len(made.steps) - MARKS, -MARKS)
        start_s, end_s = played.start_s[last], played.end_s[last]
        zero_s = min(start_s)
        timing = Timing([each - zero_s for each in start_s], [each - zero_s for each in end_s])
        latency_s = self._sample_latency_s(made)
        # Samples begin to travel when the iteration that many before is done: so many share the time of a whole one.
        ahead_s = (done_s[0] + latency_s) / (phase.ahead_iterations + 1)
        iteration_s = max((done_s[-1] - done_s[-1 - mean_of]) / mean_of, ahead_s, carried_s)
        known_s = done_s if mean_of > 1 and ahead_s < iteration_s else done_s[:1]
        return Steady(made, timing, iteration_s, tuple(each + latency_s for each in known_s))

    def _longest_carried_s(self, prepared: PreparedSteps, made: Iteration) -> float:
        """Seconds that the busiest direction of a link carries in an iteration; 0 where a trace says what it carries.

        The few iterations that are played may end before such a link is what all wait for.
        """
        if self._varies:
            return 0.0
        carried = [0.0] * len(self.routes.capacities)
        for path, bits in zip(prepared.graph.path, self._bits(made), strict=False):  # the first of the iterations
            for resource in path if bits else ():
                carried[resource] += bits
        return max(map(truediv, carried, self.routes.capacities), default=0.0)

    def _sample_latency_s(self, made: Iteration) -> float:
        """The longest latency of samples; where they travel ahead, only the first iteration waits for it."""
        sent = [step for step, size in zip(made.steps, made.size_bytes, strict=True) if size and step.kind is Kind.DATA]
        return max((self.route(step.node, step.to or "").latency_s for step in sent), default=0.0)

    def play(self, phase: Phase, made: Iteration) -> Timing:
        """When each operation of an iteration of a phase starts and ends."""
        return self._play(self._prepare(phase, made.steps), phase, made)

    def play_together(self, parts: Sequence[tuple[Phase, Iteration]]) -> list[Loop]:
        """Parts of a phase that repeat their operations over and over, each at its own pace."""
        if len(parts) == 1:
            alone = self.play(*parts[0])
            return [Loop(alone.total_s, alone)]
        graph, places = Graph(), list[range]()
        seconds, bits = list[float](), list[float]()
        for part, made in parts:
            begin = len(graph.after)
            for step in made.steps:
                self._add_step(graph, part, step, [begin + need for need in step.after], begin)
            places.append(range(begin, len(graph.after)))
            latencies_s = [self._latency_s(step) for step in made.steps]
            seconds += self._durations(part, made, latencies_s)
            bits += self._bits(made)
        return play_looping(graph, places, seconds, bits, limits=self._limits, capacities=self._capacities())

    def _prepared_for(self, phase: Phase, iterations: int = 1) -> PreparedSteps:
        feeds = [(source.node, source.into) for source in phase.sources]
        key = (
            id(phase.instances),
            phase.pruning,
            phase.meet,
            phase.batch_norm,
            phase.ahead,
            phase.ahead_iterations,
            phase.upload,
            phase.order,
            phase.averaging,
            phase.overlap,
            phase.exchange if phase.overlap else None,
            iterations,
            *feeds,
        )
        known = self._prepared.get(key)
        if known is None:
            if len(self._prepared) > _MOST_PREPARED:
                self._prepared.clear()
            if iterations > 1:
                known = repeated(self._prepared_for(phase), phase.ahead_iterations, iterations)
            else:
                steps = iteration_steps(phase, self.sizes(phase.pruning), self.routes, self.optimizer)
                known = self._prepare(phase, steps)
            self._prepared[key] = known
        return known

    def _prepare(self, phase: Phase, steps: Steps) -> PreparedSteps:
        graph = Graph()
        for step in steps:
            self._add_step(graph, phase, step, step.after)
        return PreparedSteps(phase.instances, steps, graph, [self._latency_s(step) for step in steps])

    def _add_step(self, graph: Graph, phase: Phase, step: Step, after: Sequence[int], begin: int = 0) -> None:
        if step.to is not None:
            background = is_background(step.kind, phase)
            path = self.route(step.node, step.to).resources
            # A ring sends and receives at once.
            holds = () if step.parts > 1 else self._without_overlap(step.node, step.to)
            behind = None if step.behind is None else begin + step.behind
            graph.add_transfer(after, path, background=background, holds=holds, behind=behind)
        elif step.kind in REDUCTIONS:
            graph.add_transfer(after, ())
        else:
            graph.add_call(after, self._index[step.node], self._share(phase, step))

    def _play(self, prepared: PreparedSteps, phase: Phase, made: Iteration, iterations: int = 1) -> Timing:
        seconds = self._durations(phase, made, prepared.latencies_s[: len(made.steps)])
        bits = self._bits(made)
        if iterations > 1:
            marks = [0.0] * MARKS
            seconds, bits = [*seconds, *marks] * iterations, [*bits, *marks] * iterations
        return play(prepared.graph, seconds, bits, self._limits, self._capacities())

    def _bits(self, made: Iteration) -> list[float]:
        if not self.routes.by_size:
            return [8 * size for size in made.size_bytes]
        sized = zip(made.steps, made.size_bytes, strict=True)
        return [self.route(step.node, step.to).bits(size) if step.to is not None else 0.0 for step, size in sized]

    def _capacities(self) -> Capacities:
        """Those of the links: in the mean, or from a moment of their traces on."""
        if self.moment_s is not None and self.cluster.varies:
            return self.routes.from_moment(self.moment_s)
        return Capacities(self.routes.capacities)

    @property
    def _varies(self) -> bool:
        """Whether links change while iterations are played."""
        return self.moment_s is not None and self.cluster.varies

    def _latency_s(self, step: Step) -> float:
        return 0.0 if step.to is None else self.route(step.node, step.to).latency_s

    def _durations(self, phase: Phase, made: Iteration, latencies_s: list[float]) -> list[float]:
        """What the clock takes as seconds of each operation: of a call how long it lasts, of a transfer its latency."""
        for number, size in enumerate(made.size_bytes):
            if not size and made.steps[number].kind in SAMPLES:
                latencies_s[number] = 0.0  # nothing is sent
        for number, call_s in self.call_seconds(phase, made).items():
            latencies_s[number] = call_s
        for number, coding_s in self.coding_seconds(phase, made).items():
            latencies_s[number] += coding_s
        return latencies_s

    def call_seconds(self, phase: Phase, made: Iteration) -> dict[int, float]:
        """How long each call of an iteration lasts with its share of the CPU, by its number."""
        calls = [(k, step) for k, step in enumerate(made.steps) if step.to is None and step.kind not in REDUCTIONS]
        if not calls:
            return {}  # nodes that only send something need not be in the profile
        places = [(self.seconds(i.node, phase.pruning), *i.layers, i.cpu_share) for i in phase.instances]
        return {k: self._call_s(phase, step, places[step.instance], made.samples[step.instance]) for k, step in calls}

    def coding_seconds(self, phase: Phase, made: Iteration) -> dict[int, float]:
        """What coding adds to messages and averages, by number, where the profile has times for it."""
        known = {name: times.coding_s or {} for name, times in self._table(phase.pruning).nodes.items()}
        if not any(known.values()):
            return {}
        return coding_seconds(phase, made, self.sizes(phase.pruning), lambda name: known.get(name, {}))

    def _call_s(self, phase: Phase, step: Step, place: tuple[Seconds, int, int, float], samples: int) -> float:
        seconds, first, last, share = place
        match step.kind:
            case Kind.FORWARD:
                if step.span is not None:
                    return seconds.forward_span_s(step.span, samples) / share
                return seconds.forward_s(first, last, samples) / share
            case Kind.RECOMPUTE:
                (block,) = step.layers
                return seconds.recompute_s(*block, samples) / share
            case Kind.BACKWARD | Kind.BACKWARD_INPUT | Kind.BACKWARD_WEIGHTS:
                return _backward_s(seconds, step, (first, last), samples) / share
            case Kind.UPDATE:
                if phase.sync_kind.has_server:  # the parameter server's is no instance's
                    seconds, share = self.seconds(step.node, phase.pruning), self._share(phase, step)
                return sum([seconds.update_s(*run) for run in step.layers or ((first, last),)]) / share
            case Kind.AVERAGE | Kind.COMBINE | Kind.NORM | Kind.DIVISOR:
                return 0.0
            case (Kind.DATA | Kind.UPLOAD | Kind.OUTPUT | Kind.GRADIENT | Kind.STATISTICS | Kind.TOTALS) | (
                Kind.PUSH | Kind.PULL | Kind.SQUARES | Kind.TOTAL_NORM | Kind.COUNT | Kind.TOTAL_DIVISOR
            ):
                raise AssertionError(f"{step.kind} is a transfer, not a call")
        assert_never(step.kind)

    def route(self, a: str, b: str) -> Route:
        """The route between two nodes that ``check`` has found to be joined."""
        route = self.routes.between(a, b)
        assert route is not None, f"check() refuses a plan in which {a} and {b} cannot talk"
        return route

    def node_prices(
        self, phase: Phase, hosts: list[str], timed: list[TimedStep], period_s: float | None = None
    ) -> dict[str, NodePrice]:
        """Each host's part in operations that were played; they repeat after ``period_s``, or when all have ended."""
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
        for name, radio_j in radios_j(self._radios, hosts, timed, period_s).items():
            nodes[name].sending_j += radio_j
        return nodes

    def _without_overlap(self, *names: str) -> tuple[int, ...]:
        """Those of the nodes that compute nothing while they send or receive."""
        return tuple(self._index[name] for name in names if self.cluster.nodes[name].blocking)

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


def _backward_s(seconds: Seconds, step: Step, layers: Run, samples: int) -> float:
    """Seconds of a backward call with the whole CPU, or of a part or a half of it."""
    if step.kind is Kind.BACKWARD_INPUT:
        return seconds.backward_input_s(*layers, samples)
    if step.kind is Kind.BACKWARD_WEIGHTS:
        return seconds.backward_weights_s(*layers, samples)
    return seconds.backward_s(*layers, samples) if step.span is None else seconds.backward_span_s(step.span, samples)


def timed_steps(made: Iteration, played: Timing) -> list[TimedStep]:
    """Operations with their bytes, start and end."""
    return list(zip(made.steps, made.size_bytes, played.start_s, played.end_s, strict=True))
