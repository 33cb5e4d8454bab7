"""Random clusters whose samples are private, always new, stored in few bytes, or too many to keep."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

from palmette.cost.check import forbidden, missing
from palmette.cost.delivery import sending_sources
from palmette.plan.core.delivery import delivered
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster, Node
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from tests.plan.random_problems import random_world

EPOCHS = (1, 3, 20, None)


def random_delivery_task(seed: int, *, nodes: int = 3, layers: int = 2, batch: int = 4) -> Task:
    """A task in which it matters how samples are delivered."""
    draw = random.Random(f"delivery {seed}")
    known, cluster = random_world(draw, nodes=nodes, layers=layers, sources=draw.choice([1, 1, 2]))
    known = known.model_copy(update={"sample_bytes": draw.choice([None, 1.0, 3.0])})
    changed = {name: _changed(draw, node) for name, node in cluster.nodes.items()}
    cluster = cluster.model_copy(update={"nodes": changed})
    return Task(profile=known, cluster=cluster, batch=batch, epochs=draw.choice(EPOCHS))


def _changed(draw: random.Random, node: Node) -> Node:
    update: dict[str, Any] = {}
    if node.source is not None:
        kind = draw.choice(["free", "free", "private", "stream", "own"])
        update["source"] = node.source.model_copy(
            update={
                "private": kind == "private",
                "stream": kind == "stream",
                "data": "digits" if kind == "own" else None,
                "sample_bytes": draw.choice([None, None, 2.0]),
            }
        )
    if draw.random() < 0.4:
        update["storage_bytes"] = float(draw.choice([20, 100, 1000]))
    elif draw.random() < 0.4:
        update["memory_bytes"] = float(draw.choice([80, 200, 1000]))
    return node.model_copy(update=update)


def all_deliveries(phase: Phase, task: Task) -> Iterator[Phase]:
    """Every way to deliver the samples of a phase that is allowed: each or once for each source, ahead or not."""
    sending = sending_sources(phase)
    for chosen, ahead in product(product((False, True), repeat=len(sending)), (0, 1, 2, 4)):
        kept = [k for k, once in zip(sending, chosen, strict=True) if once]
        candidate = delivered(phase, kept, ahead=ahead)
        if not (any(missing(candidate, task.evaluator)) or any(forbidden(candidate, task.evaluator))):
            yield candidate


def mean_s(phase: Phase, task: Task) -> float:
    """Seconds of an iteration in the mean over the task's epochs."""
    return task.evaluator.price(phase).mean_iteration(task.horizon)[0]


def as_tensors(profile: Profile, cluster: Cluster) -> tuple[Profile, Cluster]:
    """The inputs of someone who never heard of stored samples."""
    nodes = {
        name: node.model_copy(update={"source": node.source and node.source.model_copy(update={"sample_bytes": None})})
        for name, node in cluster.nodes.items()
    }
    return profile.model_copy(update={"sample_bytes": None}), cluster.model_copy(update={"nodes": nodes})
