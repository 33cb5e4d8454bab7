"""The phases of a real training: one for each pair of a model (the network, pruned or not) and a set of nodes.

Every node of a set that owns data trains the whole model on it, and the weights are averaged after each epoch. A set
whose nodes own none gets the data of all sources that are not private, distributed among its nodes. A model's name is
the fraction of parameters that was removed, as in the profile's ``variants``: ``0`` is the whole network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

from palmette.cost.check import check, forbidden, missing
from palmette.errors import Fault, Infeasible, InputError
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Phase, Plan
from palmette.spec.problem import Pair
from palmette.spec.tree import Feed, Instance

WHOLE = "0"


def pruning_of(model: str) -> float | None:
    """The fraction removed that a model's name states, if it states one."""
    try:
        return float(model)
    except ValueError:
        return None


def trainable_phases(task: Task) -> dict[Pair, Phase]:
    """The pairs that can be trained, each with its phase; the whole network and the first set come first.

    Raises:
        InputError: the cluster has no sets of nodes, or the profile lacks nodes.
        Infeasible: no pair may be trained.
    """
    if not task.cluster.sets:
        raise InputError(Fault("sets", "missing", "a schedule needs sets of nodes, such as gold: [cloud]"))
    found: dict[Pair, Phase] = {}
    lacking: list[Fault] = []
    refused: list[Fault] = []
    for model in [WHOLE, *sorted((name for name in task.profile.variants if pruning_of(name)), key=float)]:
        for nodes in task.cluster.sets:
            phase = _phase(task, model, nodes)
            if phase is None:
                refused.append(Fault(f"sets.{nodes}", "no data", "neither its nodes nor public sources own any"))
                continue
            lacks = list(missing(phase, task.evaluator))
            forbids = [] if lacks else list(forbidden(phase, task.evaluator))
            lacking += lacks
            refused += forbids
            if not lacks and not forbids:
                found[model, nodes] = phase
    if found:
        return found
    raise InputError(lacking) if lacking else Infeasible(refused[0])


def _phase(task: Task, model: str, nodes: str) -> Phase | None:
    feeds = list(_feeds(task, task.cluster.sets[nodes]))
    if not feeds:
        return None
    table = task.profile.variant(float(model))
    assert table is not None, "models are named after variants"
    hosts = dict.fromkeys(into for _, into in feeds)
    return Phase(
        pruning=float(model),
        sync="epoch",
        sources=tuple(Feed(node=source, samples=task.batch, into=into) for source, into in feeds),
        instances=tuple(
            Instance(
                id=node,
                layers=(1, len(table.layers)),
                node=node,
                cpu_share=task.cluster.nodes[node].limits.cpu_share,
            )
            for node in hosts
        ),
    )


def _feeds(task: Task, members: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Pairs of a source and the node of a set that trains on it."""
    sources = {name: node.source for name, node in task.cluster.nodes.items() if node.source is not None}
    own = [name for name in members if name in sources]
    if own:
        yield from zip(own, own, strict=True)
    elif members:
        public = [name for name, source in sources.items() if not source.private]
        yield from zip(public, cycle(members), strict=False)


def epoch_samples(task: Task, phase: Phase) -> int:
    """Samples in an epoch of a phase."""
    return sum(task.evaluator.epoch_samples(phase).values())


def schedule_phases(task: Task, schedule: Sequence[Mapping[str, Any]]) -> tuple[Phase, ...]:
    """The phases of a schedule; none where a problem's names are not those of variants and sets.

    Raises:
        Infeasible: a node would use more energy than its limit.
    """
    if not task.cluster.sets or not schedule:
        return ()
    found = trainable_phases(task)
    if any((segment["model"], segment["nodes"]) not in found for segment in schedule):
        return ()
    phases = tuple(
        found[segment["model"], segment["nodes"]].model_copy(
            update={"epochs": segment["epochs"], "compress": segment.get("compress", "prune")}
        )
        for segment in schedule
    )
    wrong = check(Plan(model=task.profile.model, batch=task.batch, phases=phases), task.evaluator)
    if wrong:
        raise Infeasible(wrong[0])
    return phases
