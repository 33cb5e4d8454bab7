"""RightTrain's problem by brute force, apart from the search: its own trees, epochs by counting up, shares of a grid.

Trees: each source's own chain up to a cut, then one for all; a cut at 0 is one chain, one at the end a forest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import palmette as pt
from palmette.plan.core.strategy import Task
from palmette.spec.learning import Learning
from palmette.spec.plan import Phase, Plan
from palmette.spec.tree import Feed, Instance


def fewest_iterations(curve: Learning, task: Task, replicas: int, most: int, everything: int) -> int:
    """The fewest iterations that reach a loss with at most ``most`` samples an epoch, by trying all."""
    fewest, epochs = 10**9, 1
    while epochs < fewest:
        for samples in range(1, most + 1):
            if curve.loss(epochs, samples / everything, replicas) <= task.goal.loss:
                fewest = min(fewest, epochs * -(-samples // task.batch))
                break
        epochs += 1
    return fewest


def totals(task: Task, curve: Learning, grid: tuple[float, ...]) -> Iterator[tuple[float, float]]:
    """Joules and seconds of the whole training of every plan."""
    cluster, depth = task.cluster, len(task.profile.layers)
    owned = {name: cluster.nodes[name].source.samples for name in cluster.sources()}
    for many in range(1, len(owned) + 1):
        for used in itertools.combinations(owned, many):
            most = sum(owned[name] for name in used)
            for cut in range(depth + 1 if many > 1 else depth):
                replicas = len(used) if cut else 1
                iterations = fewest_iterations(curve, task, replicas, most, sum(owned.values()))
                for phase in _phases(task, {name: owned[name] for name in used}, cut, grid):
                    plan = Plan(model="m", batch=task.batch, phases=(phase,))
                    price = pt.estimate(plan, profile=task.profile, cluster=cluster)
                    yield iterations * price.iteration_j, iterations * price.iteration_s


def _phases(task: Task, used: dict[str, int], cut: int, grid: tuple[float, ...]) -> Iterator[Phase]:
    depth, names = len(task.profile.layers), list(task.cluster.nodes)
    parts = (len(used) if cut else 0) + (cut < depth)
    for hosts in itertools.product(names, repeat=parts):
        if _leaks(task, list(used), cut, hosts):
            continue
        for shares in itertools.product(grid, repeat=parts):
            if all(_used(hosts, shares, host) <= 1 for host in hosts):
                yield _phase(task, used, cut, hosts, shares)


def _used(hosts: tuple[str, ...], shares: tuple[float, ...], host: str) -> float:
    return sum(share for each, share in zip(hosts, shares, strict=True) if each == host)


def _leaks(task: Task, used: list[str], cut: int, hosts: tuple[str, ...]) -> bool:
    first = hosts[: len(used)] if cut else hosts * len(used)
    return any(task.cluster.nodes[n].source.private and host != n for n, host in zip(used, first, strict=True))


def _phase(task: Task, used: dict[str, int], cut: int, hosts: tuple[str, ...], shares: tuple[float, ...]) -> Phase:
    depth, total = len(task.profile.layers), sum(used.values())
    samples = {name: task.batch * many // total for name, many in used.items()}
    samples[next(iter(used))] += task.batch - sum(samples.values())
    feeds = [Feed(node=n, samples=samples[n], into=f"f{k}" if cut else "root") for k, n in enumerate(used)]
    instances = []
    if cut < depth:
        instances.append(Instance(id="root", layers=(cut + 1, depth), node=hosts[-1], cpu_share=shares[-1]))
    for k in range(len(used) if cut else 0):
        into = "root" if cut < depth else None
        instances.append(Instance(id=f"f{k}", layers=(1, cut), node=hosts[k], cpu_share=shares[k], into=into))
    return Phase(sources=tuple(feeds), instances=tuple(instances))
