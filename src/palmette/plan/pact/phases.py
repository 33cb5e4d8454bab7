"""The pairs of a real training: a network, more or less pruned, on a named set of nodes of the cluster, as a phase.

Every node of a set that owns data trains the whole network on it, and the weights are averaged after each epoch. A set
whose nodes own none gets the data of all sources that are not private, dealt out among its nodes. A model's name is
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


def ratio(model: str) -> float | None:
    """The fraction removed that a model's name says, if it says one."""
    try:
        return float(model)
    except ValueError:
        return None


def stages(task: Task) -> dict[Pair, Phase]:
    """The pairs that can be trained, each with its phase; the whole network and the first set come first.

    Raises:
        InputError: the cluster has no sets of nodes, or the profile lacks nodes.
        Infeasible: nothing that is there may be trained.
    """
    if not task.cluster.sets:
        raise InputError(Fault("sets", "missing", "a schedule needs sets of nodes, such as gold: [cloud]"))
    found: dict[Pair, Phase] = {}
    lacking: list[Fault] = []
    refused: list[Fault] = []
    for model in [WHOLE, *sorted((name for name in task.profile.variants if ratio(name)), key=float)]:
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
    raise InputError(lacking) if lacking else Infeasible(str(refused[0]))


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
    """Sources and the nodes of a set that train on them."""
    sources = {name: node.source for name, node in task.cluster.nodes.items() if node.source is not None}
    own = [name for name in members if name in sources]
    if own:
        yield from zip(own, own, strict=True)
    elif members:
        public = [name for name, source in sources.items() if not source.private]
        yield from zip(public, cycle(members), strict=False)


def samples(task: Task, phase: Phase) -> int:
    """Samples that an epoch of a phase sees."""
    return sum(task.evaluator.epoch_samples(phase).values())


def phases_of(task: Task, schedule: Sequence[Mapping[str, Any]]) -> tuple[Phase, ...]:
    """The phases of a schedule; none where a problem's names are not those of variants and sets.

    Raises:
        Infeasible: a node would use more energy than its limit.
    """
    if not task.cluster.sets or not schedule:
        return ()
    found = stages(task)
    if any((stretch["model"], stretch["nodes"]) not in found for stretch in schedule):
        return ()
    phases = tuple(
        found[stretch["model"], stretch["nodes"]].model_copy(update={"epochs": stretch["epochs"]})
        for stretch in schedule
    )
    wrong = check(Plan(model=task.profile.model, batch=task.batch, phases=phases), task.evaluator)
    if wrong:
        raise Infeasible(str(wrong[0]))
    return phases
