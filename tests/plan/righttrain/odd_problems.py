"""Random problems of other kinds: real networks' shapes or a single layer, many sources, limits, worths, dead links."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster, Limits, Link, Node, Power, Source
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.profile import Layer, Profile, Times

# Parameter bytes, output bytes and milliseconds of each layer on a device.
NETWORKS = {
    "lenet": (
        *((1824, 18816, 0.7), (0, 4704, 0.05), (9664, 6400, 2.4), (0, 1600, 0.03)),
        *((192480, 480, 0.4), (40656, 336, 0.1), (3400, 40, 0.02)),
    ),
    "alexnet": ((7e3, 65536, 1.3), (1.2e6, 49152, 18.0), (8.5e6, 16384, 27.0), (8.2e7, 16384, 8.4), (1.6e5, 40, 0.1)),
    "two layers": ((5e4, 8000, 3.0), (5e5, 40, 2.0)),
    "one layer": ((5e5, 40, 5.0),),
}
SERVERS = {"edge": (8.0, 8.0, 30.0), "cloud": (60.0, 60.0, 280.0)}  # speed, idle and busy power


class OddProblem(NamedTuple):
    """A task without a deadline, and its learning curve."""

    task: Task
    curve: Learning

    def by(self, deadline_s: float | None) -> Task:
        """The task with a deadline."""
        task = self.task
        goal = Goal(weights={"energy": 1.0}, loss=task.goal.loss, deadline_s=deadline_s)
        return Task(profile=task.profile, cluster=task.cluster, batch=task.batch, goal=goal)


def odd_problem(seed: int, sources: int, network: str) -> OddProblem:
    """A problem with so many sources."""
    draw = random.Random(seed)
    tiers = ["edge"] * draw.choice([1, 1, 2, 3]) + ["cloud"] * draw.choice([0, 1, 2])
    servers = {f"{tier}{k}": tier for k, tier in enumerate(tiers)}
    private, limited = draw.choice([0.0, 0.5, 1.0]), draw.random() < 0.4
    nodes = {f"d{k}": _device(draw, private, limited) for k in range(sources)}
    for name, tier in servers.items():
        factor = draw.uniform(0.5, 2)
        power = Power(
            idle_w=SERVERS[tier][1] * factor, busy_w=SERVERS[tier][2] * factor, exponent=draw.choice([1.0, 2.0, 3.0])
        )
        nodes[name] = Node(tier=tier, power=power)
    hosts = list(servers)
    links = [_link(draw, f"d{k}", draw.choice(hosts), (0.001, 0.5, 2, 10, 50, 100)) for k in range(sources)]
    links += [_link(draw, *pair, (3, 20, 200)) for pair in itertools.pairwise(hosts)]
    weights = {f"d{k}": draw.choice([0.2, 0.5, 1.0, 3.0]) for k in range(sources)} if draw.random() < 0.4 else {}
    curve = Learning(
        floor=0.05,
        scale=2.2,
        epoch_exponent=draw.choice([0.4, 0.6, 0.9]),
        data_exponent=draw.choice([0.1, 0.4, 0.8]),
        replica_exponent=draw.choice([0.0, 0.05, 0.2]),
        weights=weights,
    )
    speeds = {name: 1.0 if name not in servers else SERVERS[servers[name]][0] for name in nodes}
    goal = Goal(weights={"energy": 1.0}, loss=draw.choice([0.3, 0.4, 0.7]))
    cluster, batch = Cluster(nodes=nodes, links=tuple(links)), max(sources, draw.choice([16, 60, 128]))
    return OddProblem(Task(profile=_profile(draw, network, speeds), cluster=cluster, batch=batch, goal=goal), curve)


def _device(draw: random.Random, private: float, limited: bool) -> Node:
    idle_w = 1.5 * draw.uniform(0.4, 2.5)
    power = Power(idle_w=idle_w, busy_w=idle_w + draw.uniform(0.5, 8), exponent=draw.choice([0.8, 1.0, 2.0, 3.0]))
    samples = draw.choice([draw.randint(60, 500), draw.randint(500, 8000)])
    limits = Limits(cpu_share=draw.choice([1.0, 0.5, 0.3]), energy_j=draw.choice([None, draw.uniform(200, 20000)]))
    source = Source(samples=samples, private=draw.random() < private)
    return Node(tier="device", power=power, source=source, limits=limits if limited else Limits())


def _link(draw: random.Random, a: str, b: str, mbps: tuple[float, ...]) -> Link:
    bps = draw.choice(mbps) * 1e6
    rates = {"up_bps": bps, "down_bps": 4 * bps} if draw.random() < 0.4 else {"bandwidth_bps": bps}
    latency_s, joules = draw.choice([0.0, 0.002, 0.03]), draw.choice([0.0, 2e-8, 1e-7])
    return Link(between=(a, b), **rates, latency_s=latency_s, energy_j_per_bit=joules)


def _profile(draw: random.Random, network: str, speeds: dict[str, float]) -> Profile:
    shape = NETWORKS[network]
    layers = tuple(
        Layer(name=f"l{k}", parameter_bytes=float(size), output_bytes=float(out))
        for k, (size, out, _) in enumerate(shape)
    )
    nodes = {}
    for name, speed in speeds.items():
        each = tuple(1e-3 * ms / speed / draw.uniform(0.6, 1.6) for _, _, ms in shape)
        update_s = tuple(1e-9 * size / speed for size, _, _ in shape)
        nodes[name] = Times(forward_s=each, backward_s=tuple(2 * s for s in each), update_s=update_s)
    return Profile(model=network, input_bytes=12288.0, layers=layers, nodes=nodes)
