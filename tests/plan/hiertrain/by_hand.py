"""HierTrain's equations written down once more, layer by layer, and every policy tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import palmette as pt
from palmette.cost.check import check
from palmette.cost.evaluate import Evaluator
from palmette.plan.core.strategy import Task
from palmette.plan.hiertrain.formula import Policy
from palmette.plan.hiertrain.problem import build_problem
from palmette.plan.hiertrain.tree import build_tree
from palmette.spec.plan import Plan


def total_s(task: Task, decision: dict[str, Any]) -> float:  # noqa: C901 -- the equations in one place
    """T_total, equation (12)."""
    prices, profile, cluster = task.evaluator, task.profile, task.cluster
    (home,) = cluster.sources()
    o, s, l = (decision[f"worker_{x}"] for x in "osl")  # noqa: E741
    m_s, m_l, b_o, b_s, b_l = (decision[x] for x in ("m_s", "m_l", "b_o", "b_s", "b_l"))
    last = len(profile.layers)

    def computing(kind: str, node: str | None, first: int, end: int, samples: int) -> float:
        if node is None or samples == 0:
            return 0.0
        times = profile.nodes[node]
        calls = getattr(times, f"{kind}_call_s") or (0.0,) * last
        share = cluster.nodes[node].limits.cpu_share
        return sum((calls[i - 1] + samples * getattr(times, f"{kind}_s")[i - 1]) / share for i in range(first, end + 1))

    def transfer(a: str, b: str, size_bytes: float) -> float:
        if a == b:
            return 0.0
        route = prices.routes.between(a, b)
        assert route is not None
        return route.latency_s + size_bytes * 8 / route.bandwidth_bps

    def raw(node: str | None, samples: int) -> float:
        return transfer(home, node, samples * profile.input_bytes) if node is not None and samples else 0.0

    def output(node: str | None, layer: int, samples: int) -> float:
        if node is None or samples == 0:
            return 0.0
        return transfer(node, o, samples * profile.layers[layer - 1].output_bytes)

    def gradient(node: str | None, layer: int, samples: int) -> float:
        if node is None or samples == 0:
            return 0.0
        return transfer(o, node, samples * profile.layers[layer - 1].output_bytes)

    def exchange(node: str | None, m: int) -> float:
        size = sum(layer.parameter_bytes for layer in profile.layers[:m])
        return transfer(node, o, size) + transfer(o, node, size) if node is not None and size else 0.0

    def update(node: str | None, m: int) -> float:
        return 0.0 if node is None else sum(profile.nodes[node].update_s[:m]) / cluster.nodes[node].limits.cpu_share

    total = max(
        raw(o, b_o) + computing("forward", o, 1, m_s, b_o),
        raw(s, b_s) + computing("forward", s, 1, m_s, b_s) + output(s, m_s, b_s),
        raw(l, b_l) + computing("forward", l, 1, m_s, b_l),
    )
    total += max(
        computing("backward", o, 1, m_s, b_o),
        computing("backward", s, 1, m_s, b_s) + gradient(s, m_s, b_s),
        computing("backward", l, 1, m_s, b_l),
    )
    for kind, sent in (("forward", output), ("backward", gradient)):
        total += max(
            computing(kind, o, m_s + 1, m_l, b_o + b_s),
            computing(kind, l, m_s + 1, m_l, b_l) + sent(l, m_l, b_l),
        )
        total += computing(kind, o, m_l + 1, last, b_o + b_s + b_l)
    total += max(update(o, last), update(s, m_s), update(l, m_l))
    return total + max(exchange(s, m_s), exchange(l, m_l))


def policies(nodes: list[str], layers: int, batch: int) -> Iterator[dict[str, Any]]:
    """Every assignment, every cut, every number of samples."""
    padded = nodes + [None] * (3 - len(nodes))  # type: ignore[list-item]
    for o, s, l in dict.fromkeys(itertools.permutations(padded, 3)):  # noqa: E741
        if o is None or (l is None and s is not None):
            continue
        for m_s, m_l in itertools.combinations_with_replacement(range(layers + 1), 2):
            if (s is None and m_s) or (l is None and m_l):
                continue
            for b_s in range((batch if m_s else 0) + 1):
                for b_l in range((batch - b_s if m_l else 0) + 1):
                    numbers = {"m_s": m_s, "m_l": m_l, "b_o": batch - b_s - b_l, "b_s": b_s, "b_l": b_l}
                    yield {"worker_o": o, "worker_s": s, "worker_l": l, **numbers}


def may_run(task: Task, decision: dict[str, Any]) -> bool:
    """Whether the tree of a decision passes ``check``."""
    problem = build_problem(task)
    workers = [decision[f"worker_{x}"] for x in "osl"]
    nodes = [None if name is None else problem.names.index(name) for name in workers]
    policy = Policy(*nodes, *(decision[x] for x in ("m_s", "m_l", "b_o", "b_s", "b_l")))  # type: ignore[arg-type]
    plan = Plan(model="random", batch=task.batch, phases=(build_tree(problem, policy, task),))
    return not check(plan, Evaluator(task.profile, task.cluster))


def least_s(task: Task) -> float | None:
    """The least T_total of all policies that may run; None where there is none."""
    every = policies(list(task.cluster.nodes), len(task.profile.layers), task.batch)
    costs = sorted(((total_s(task, d), k, d) for k, d in enumerate(every)), key=lambda row: row[:2])
    return next((cost for cost, _, decision in costs if may_run(task, decision)), None)


def decided(task: Task, **options: Any) -> dict[str, Any]:
    """What the strategy decides."""
    return dict(pt.plan("hiertrain", profile=task.profile, cluster=task.cluster, batch=task.batch, **options).decision)
