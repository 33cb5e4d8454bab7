"""A slow, obviously right twin of the event clock, written from the text of DESIGN and FORMATS alone.

Exact fractions; every layer on its own; at every moment all rates anew by naive progressive filling; every path
between two nodes looked at. It shares no code with ``palmette.cost``. Where the text leaves the order of calls that
come at the same moment open, it takes forward before backward before update, forwards by first layer and then the
plan's order, backwards the other way round, updates in the plan's order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from palmette.spec.cluster import Cluster, Link
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from palmette.spec.tree import Instance

Key = tuple[Any, ...]
Resource = tuple[int, str]  # a link and the node that sends over it; "both" for half duplex


class Ambiguous(Exception):
    """Two paths are equally good, and the text does not say which to take."""


@dataclass
class Job:
    """A call (with a node) or a transfer (with resources); without either, it takes no time."""

    key: Key
    needs: set[Key]
    order: Key = ()
    node: str | None = None
    share: Fraction = Fraction(0)
    seconds: Fraction = Fraction(0)
    resources: list[Resource] = field(default_factory=list)
    bits: Fraction = Fraction(0)
    background: bool = False


@dataclass
class Result:
    """What one iteration costs."""

    iteration_s: Fraction
    iteration_j: float | None
    sent_bytes: dict[str, Fraction]
    received_bytes: dict[str, Fraction]
    busy_s: dict[str, Fraction]
    end_s: dict[Key, Fraction]


def exact(number: float) -> Fraction:
    """The number as a person writes it: 0.1 is a tenth."""
    return Fraction(repr(number))


class Simulator:
    """One iteration of a phase under ``sync: step``; ``blocks`` are those of the instances that recompute."""

    def __init__(
        self,
        phase: Phase,
        profile: Profile,
        cluster: Cluster,
        blocks: Callable[[Instance], Sequence[tuple[int, int]]] = lambda _: (),
    ) -> None:
        self.phase, self.profile, self.cluster, self.blocks = phase, profile, cluster, blocks
        self.by_id = {instance.id: instance for instance in phase.instances}
        self.jobs: dict[Key, Job] = {}
        self.sent: dict[str, Fraction] = {}
        self.received: dict[str, Fraction] = {}
        self.link_j = Fraction(0)
        for number, instance in enumerate(phase.instances):
            self.add_forward(instance, number)
            self.add_backward(instance, number)
        self.add_exchange_and_updates()

    # What there is to do.

    def samples(self, instance: Instance) -> int:
        own = sum(source.samples for source in self.phase.sources if source.into == instance.id)
        return own + sum(self.samples(other) for other in self.phase.instances if other.into == instance.id)

    def add_call(self, key: Key, needs: set[Key], order: Key, instance: Instance, seconds: Fraction) -> None:
        share = exact(instance.cpu_share)
        self.jobs[key] = Job(key, needs, order, instance.node, share, seconds / share)

    def add_transfer(self, key: Key, needs: set[Key], a: str, b: str, size: Fraction) -> None:
        path = self.path(a, b)
        links = [self.link(x, y) for x, y in itertools.pairwise(path)]
        resources = [(k, "both" if link.duplex == "half" else x) for (k, link), x in zip(links, path, strict=False)]
        latency = sum((exact(link.latency_s) for _, link in links), Fraction(0))
        self.jobs[key] = Job(key, needs, seconds=latency, resources=resources, bits=8 * size)
        self.sent[a] = self.sent.get(a, Fraction(0)) + size
        self.received[b] = self.received.get(b, Fraction(0)) + size
        self.link_j += 8 * size * sum((exact(link.energy_j_per_bit) for _, link in links), Fraction(0))

    def layer_seconds(self, instance: Instance, direction: str, layer: int) -> Fraction:
        times = self.profile.nodes[instance.node]
        each = getattr(times, f"{direction}_s")
        fixed = getattr(times, f"{direction}_call_s") or [0.0] * len(each)
        return exact(fixed[layer - 1]) + self.samples(instance) * exact(each[layer - 1])

    def add_pass(self, instance: Instance, direction: str, needs: set[Key], order: Key) -> None:
        """A call, cut at every batch norm whose parts share statistics; the key of its last piece has no point.

        Before the backward of a block that is computed again comes its forward.
        """
        forward = direction == "forward"
        seconds, layers = Fraction(0), layers_of(instance)
        again = {} if forward or not instance.recompute else {last: first for first, last in self.blocks(instance)}
        for layer in layers if forward else reversed(layers):
            if layer in again:
                if layer < layers[-1]:
                    self.add_call((direction, instance.id, "after", layer), needs, order, instance, seconds)
                    seconds, needs = Fraction(0), {(direction, instance.id, "after", layer)}
                block = [self.layer_seconds(instance, "forward", k) for k in range(again[layer], layer + 1)]
                ends = again[layer] == min(again.values())
                key = ("recompute", instance.id) if ends else ("recompute", instance.id, layer)
                self.add_call(key, needs, order, instance, sum(block, Fraction(0)))
                needs = {key}
            norms = self.shared_norms(layer)
            piece = self.layer_seconds(instance, direction, layer) / (len(norms) + 1)
            for norm in norms if forward else reversed(norms):
                key = (direction, instance.id, layer, norm)
                self.add_call(key, needs, order, instance, seconds + piece)
                seconds, needs = Fraction(0), {self.add_totals(direction, layer, norm, instance.node)}
            seconds += piece
        self.add_call((direction, instance.id), needs, order, instance, seconds)

    def shared_norms(self, layer: int) -> list[int]:
        many = len(self.profile.layers[layer - 1].batch_norm_channels)
        return list(range(many)) if self.phase.batch_norm == "whole" and len(self.holders(layer)) > 1 else []

    def add_totals(self, direction: str, layer: int, norm: int, asking: str) -> Key:
        """Statistics to where the replicas meet, one message per node, and totals back; what ``asking`` waits for."""
        holders = self.holders(layer)
        place = self.meeting_place(holders)
        size = 8 * Fraction(1 + 2 * self.profile.layers[layer - 1].batch_norm_channels[norm])
        about = (direction, layer, norm)
        if ("combine", *about) not in self.jobs:
            given: set[Key] = set()
            for node in {holder.node for holder in holders}:
                own = {(direction, h.id, layer, norm) for h in holders if h.node == node}
                if node == place:
                    given |= own
                else:
                    self.add_transfer(("statistics", *about, node), own, node, place, size)
                    self.add_transfer(("totals", *about, node), {("combine", *about)}, place, node, size)
                    given.add(("statistics", *about, node))
            self.jobs["combine", *about] = Job(("combine", *about), given)
        return ("combine", *about) if asking == place else ("totals", *about, asking)

    def holders(self, layer: int) -> list[Instance]:
        return [i for i in self.phase.instances if layer in layers_of(i)]

    def message(self, instance: Instance) -> Fraction:
        size = self.samples(instance) * exact(self.profile.layers[instance.layers[1] - 1].output_bytes)
        scales = 4 * (self.profile.layers[instance.layers[1] - 1].output_channels or 0)
        return Fraction(math.ceil(size / 4) + scales) if instance.codec == "int8" else size

    def labels(self, instance: Instance) -> Fraction:
        """Of an 8-bit output: 8 bytes for each sample whose loss is computed on another node than it comes from."""
        if instance.codec != "int8":
            return Fraction(0)
        root = instance
        while root.into is not None:
            root = self.by_id[root.into]
        return Fraction(8 * sum(many for node, many in self.sources_of(instance) if node != root.node))

    def sources_of(self, instance: Instance) -> list[tuple[str, int]]:
        own = [(source.node, source.samples) for source in self.phase.sources if source.into == instance.id]
        before = [self.sources_of(other) for other in self.phase.instances if other.into == instance.id]
        return own + [each for found in before for each in found]

    def add_forward(self, instance: Instance, number: int) -> None:
        needs: set[Key] = set()
        for k, source in enumerate(self.phase.sources):
            if source.into == instance.id and source.node != instance.node:
                size = source.samples * exact(self.profile.input_bytes)
                self.add_transfer(("data", k), set(), source.node, instance.node, size)
                needs.add(("data", k))
        for other in self.phase.instances:
            if other.into == instance.id and other.node == instance.node:
                needs.add(("forward", other.id))
            elif other.into == instance.id:
                size = self.message(other) + self.labels(other)
                self.add_transfer(("output", other.id), {("forward", other.id)}, other.node, instance.node, size)
                needs.add(("output", other.id))
        self.add_pass(instance, "forward", needs, (0, instance.layers[0], number))

    def add_backward(self, instance: Instance, number: int) -> None:
        needs: set[Key] = {("forward", instance.id)}
        if instance.into is not None:
            above = self.by_id[instance.into]
            needs.add(("backward", above.id))
            if above.node != instance.node:
                self.add_transfer(
                    ("gradient", instance.id),
                    {("backward", above.id)},
                    above.node,
                    instance.node,
                    self.message(instance),
                )
                needs.add(("gradient", instance.id))
        self.add_pass(instance, "backward", needs, (1, -instance.layers[0], -number))

    def add_exchange_and_updates(self) -> None:
        """Gradients are added up on each node and go in one message; a node updates a layer once."""
        waits: dict[tuple[str, int], Key] = {}
        messages: dict[tuple[str, str], list[int]] = {}
        for layer in range(1, len(self.profile.layers) + 1):
            holders = self.holders(layer)
            if len(holders) < 2 or not self.profile.layers[layer - 1].parameter_bytes:
                continue
            place = self.meeting_place(holders)
            given: set[Key] = set()
            for holder in holders:
                if holder.node == place:
                    waits[place, layer] = ("average", layer)
                    given.add(("backward", holder.id))
                else:
                    waits[holder.node, layer] = ("pull", holder.node, place)
                    given.add(("push", holder.node, place))
                    if layer not in messages.setdefault((holder.node, place), []):
                        messages[holder.node, place].append(layer)
            self.jobs["average", layer] = Job(("average", layer), given)
        for (node, place), layers in messages.items():
            size = sum((exact(self.profile.layers[k - 1].parameter_bytes) for k in layers), Fraction(0))
            own = {("backward", h.id) for k in layers for h in self.holders(k) if h.node == node}
            self.add_transfer(("push", node, place), own, node, place, size)
            self.add_transfer(("pull", node, place), {("average", k) for k in layers}, place, node, size)
        for number, instance in enumerate(self.phase.instances):
            earlier = [i for i in self.phase.instances[:number] if i.node == instance.node]
            layers = [k for k in layers_of(instance) if not any(k in layers_of(i) for i in earlier)]
            if layers:
                times = self.profile.nodes[instance.node].update_s
                needs = {waits[instance.node, k] for k in layers if (instance.node, k) in waits}
                seconds = sum((exact(times[k - 1]) for k in layers), Fraction(0))
                key = ("update", instance.id)
                self.add_call(key, needs | {("backward", instance.id)}, (2, number), instance, seconds)

    def meeting_place(self, holders: list[Instance]) -> str:
        if self.phase.meet is not None and len({holder.node for holder in holders}) > 1:
            return self.phase.meet
        root = next(i for i in self.phase.instances if i.into is None).node
        if any(holder.node == root for holder in holders):
            return root
        return min(holders, key=lambda holder: len(self.path(holder.node, root))).node  # min takes the first of equals

    # The ways between nodes.

    def link(self, a: str, b: str) -> tuple[int, Link]:
        return next((k, link) for k, link in enumerate(self.cluster.links) if set(link.between) == {a, b})

    def paths(self, a: str, b: str) -> Iterator[list[str]]:
        """All paths with the fewest hops."""
        reached = [[a]]
        while reached and not any(path[-1] == b for path in reached):
            reached = [
                [*path, end]
                for path in reached
                for link in self.cluster.links
                if path[-1] in link.between
                for end in link.between
                if end not in path
            ]
        return (path for path in reached if path[-1] == b)

    def path(self, a: str, b: str) -> list[str]:
        paths = list(self.paths(a, b))
        widths = [
            min((min(rate(self.link(x, y)[1], end) for end in (x, y)) for x, y in itertools.pairwise(p)), default=0.0)
            for p in paths
        ]
        if widths.count(max(widths)) > 1:
            raise Ambiguous
        return paths[widths.index(max(widths))]

    # Playing it.

    def rates(self, flows: list[Job]) -> dict[Key, Fraction]:
        """Max-min for the foreground, as if it were alone; then for the background, on what the foreground leaves."""
        bandwidths = {r: exact(rate(self.cluster.links[r[0]], r[1])) for flow in flows for r in flow.resources}
        foreground = [flow for flow in flows if not flow.background]
        rates = fair_rates(foreground, bandwidths)
        left = bandwidths.copy()
        for flow in foreground:
            for resource in flow.resources:
                left[resource] -= rates[flow.key]
        return rates | fair_rates([flow for flow in flows if flow.background], left)

    def run(self) -> Result:
        self.now = Fraction(0)
        self.waiting, self.queues = dict(self.jobs), {name: list[Job]() for name in self.cluster.nodes}
        self.timed: dict[Key, Fraction] = {}  # running calls and latencies, with their ends
        self.left: dict[Key, Fraction] = {}  # transfers, with the bits still to carry
        self.end_s: dict[Key, Fraction] = {}
        self.busy = {name: Fraction(0) for name in self.hosts()}
        self.effort = dict.fromkeys(self.hosts(), 0.0)
        while len(self.end_s) < len(self.jobs):
            self.end_what_is_due()
            self.start_what_is_ready()
            if not any(end == self.now for end in self.timed.values()):  # else there is more to end at this moment
                self.pass_time()
        return Result(self.now, self.energy(), self.sent, self.received, self.busy, self.end_s)

    def end_what_is_due(self) -> None:
        for key in [key for key, bits in self.left.items() if bits == 0]:
            del self.left[key]
            self.timed[key] = self.now + self.jobs[key].seconds
        for key in [key for key, end in self.timed.items() if end == self.now]:
            del self.timed[key]
            self.end_s[key] = self.now

    def start_what_is_ready(self) -> None:
        ready = [job for job in self.waiting.values() if all(need in self.end_s for need in job.needs)]
        for job in sorted(ready, key=lambda job: job.order):
            del self.waiting[job.key]
            if job.node is not None:
                self.queues[job.node].append(job)
            elif job.bits:
                self.left[job.key] = job.bits
            else:
                self.timed[job.key] = self.now + job.seconds
        for name, queue in self.queues.items():
            while queue and queue[0].share <= exact(self.cluster.nodes[name].limits.cpu_share) - self.used_cpu(name):
                job = queue.pop(0)
                self.timed[job.key] = self.now + job.seconds

    def pass_time(self) -> None:
        """Go on to the next moment at which a call, a latency or the bits of a transfer end."""
        rates = self.rates([self.jobs[key] for key in self.left])
        moments = [end - self.now for end in self.timed.values()]
        moments += [self.left[key] / rate for key, rate in rates.items() if rate]
        passed = min(moments, default=Fraction(0))
        for key, rate in rates.items():
            self.left[key] -= rate * passed
        for name in self.busy:
            used = self.used_cpu(name)
            self.busy[name] += passed if used else 0
            self.effort[name] += float(passed) * float(used) ** self.exponent(name)
        self.now += passed

    def used_cpu(self, name: str) -> Fraction:
        return sum((self.jobs[key].share for key in self.timed if self.jobs[key].node == name), Fraction(0))

    # What it costs.

    def hosts(self) -> list[str]:
        own = {source.node for source in self.phase.sources} | {i.node for i in self.phase.instances}
        return list(own | ({self.phase.meet} if self.phase.meet is not None and self.meets() else set()))

    def meets(self) -> bool:
        return any(len({i.node for i in self.holders(k)}) > 1 for k in range(1, len(self.profile.layers) + 1))

    def exponent(self, name: str) -> float:
        power = self.cluster.nodes[name].power
        return power.exponent if power else 1.0

    def energy(self) -> float | None:
        total = float(self.link_j)
        for name in self.hosts():
            power = self.cluster.nodes[name].power
            if power is None:
                return None
            total += power.idle_w * float(self.now) + (power.busy_w - power.idle_w) * self.effort[name]
        return total


def fair_rates(flows: list[Job], capacities: dict[Resource, Fraction]) -> dict[Key, Fraction]:
    """All grow together until a resource is full; those on it stop, the others grow on."""
    rates: dict[Key, Fraction] = {}
    while len(rates) < len(flows):
        levels = {}
        for resource in {r for flow in flows for r in flow.resources}:
            users = [flow for flow in flows if resource in flow.resources]
            growing = [flow for flow in users if flow.key not in rates]
            if growing:
                used = sum((rates[flow.key] for flow in users if flow.key in rates), Fraction(0))
                levels[resource] = (capacities[resource] - used) / len(growing)
        level = min(levels.values())
        for flow in flows:
            if flow.key not in rates and any(levels[r] == level for r in flow.resources):
                rates[flow.key] = level
    return rates


def layers_of(instance: Instance) -> range:
    return range(instance.layers[0], instance.layers[1] + 1)


def rate(link: Link, sender: str) -> float:
    """Bits per second from one end of a link to the other."""
    if link.bandwidth_bps is not None:
        return link.bandwidth_bps
    found = link.up_bps if sender == link.between[0] else link.down_bps
    assert found is not None
    return found
