"""Random tasks under all goals, with a loss or without, and the rivals that a search must never be behind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from palmette.errors import PalmetteError
from palmette.plan.core.choice import score
from palmette.plan.core.comparison import changes_learning, cost, is_lossy, planned, small_norm_parts
from palmette.plan.core.strategy import Task
from palmette.spec.codec_term import CodecTerm
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan
from palmette.spec.sync import USUAL_OUTER
from tests.plan.problems import LITTLE, goal
from tests.plan.random_problems import random_world

RIVALS = ("federated", "local-sgd", "diloco", "upload", "righttrain")
GOALS = ("time", "energy", "power", "edp", "0.3*time+0.7*energy")
_EQUAL = 1 + 1e-9


@dataclass(frozen=True)
class RandomTask:
    """A task, and the options that all strategies are given."""

    task: Task
    options: dict[str, Any]

    @property
    def lossy(self) -> bool:
        """Whether codecs are allowed."""
        return bool(self.options.get("lossy"))


def random_task(seed: int, most_nodes: int = 6) -> RandomTask:
    """One source or several, private or not, any goal, with a loss and a curve or without, with codecs or without."""
    draw = random.Random(seed)
    nodes = draw.randint(2, most_nodes)
    sources, private = draw.randint(1, nodes), draw.random() < 0.5
    known, cluster = random_world(
        draw, nodes=nodes, layers=draw.randint(2, 4), sources=sources, private=private, limits=draw.random() < 0.2
    )
    curve, to_loss = random_curve(draw), draw.random() < 0.75
    options: dict[str, Any] = {"effort": LITTLE, "lossy": draw.random() < 0.5}
    if to_loss:
        options["learning"] = curve
    asked = goal(draw.choice(GOALS), loss=curve.loss(draw.randint(1, 30), 1.0, 1) if to_loss else None)
    return RandomTask(Task(profile=known, cluster=cluster, batch=draw.randint(sources, 12), goal=asked), options)


def random_curve(draw: random.Random) -> Learning:
    """A curve that knows everything, or not all of it."""
    codecs = [
        CodecTerm(of=of, codec=codec, factor=draw.choice([1.0, 1.02, 1.2]))
        for of, codec in (("gradients", "int8"), ("gradients", "topk"), ("differences", "int8"), ("outputs", "int8"))
        if draw.random() < 0.7
    ]
    if any(each.of == "outputs" for each in codecs):
        codecs.append(CodecTerm(of="outputs", codec="int4-delta", factor=1.02))
    known = {"epochs": (1.0, 30.0), "data": (draw.choice([0.25, 1.0]), 1.0), "replicas": (1.0, 6.0)}
    return Learning(
        floor=draw.choice([0.0, 0.1]),
        scale=1.0,
        epoch_exponent=draw.choice([0.3, 0.6]),
        data_exponent=draw.choice([0.0, 0.2, 0.8]),
        replica_exponent=draw.choice([-0.05, 0.0, 0.02, 0.2]),
        window_exponent=draw.choice([None, 0.0, 0.02, 0.1]),
        outer=draw.choice([None, USUAL_OUTER]),
        codecs=tuple(codecs),
        fitted_on={**known, "window": (1.0, draw.choice([8.0, 64.0]))},
    )


def behind(name: str, world: RandomTask) -> Iterator[str]:
    """How far a strategy is behind each rival that keeps the same rules, a sentence each; none where it is not."""
    own, reason = _planned(name, world)
    for rival in RIVALS:
        other, _ = _planned(rival, world)
        if other is None or not _keeps_rules(other, world):
            continue
        if own is None:
            yield f"{name} has no plan ({reason}), {rival} has"
            continue
        spent = [cost(plan, world.task.goal, world.task.horizon) for plan in (own, other)]
        first, second = score(spent, world.task.goal)
        if first > second * _EQUAL:
            yield f"{name} {first:.6g} is behind {rival} {second:.6g}, {first / second:.4g} times"


def _planned(name: str, world: RandomTask) -> tuple[Plan | None, PalmetteError | None]:
    try:
        return planned(name, world.task, world.options), None
    except PalmetteError as error:
        return None, error


def _keeps_rules(plan: Plan, world: RandomTask) -> bool:
    """Whether a plan does nothing that the task does not allow."""
    apart = changes_learning(plan) and world.task.goal.loss is None
    return not (apart or (is_lossy(plan) and not world.lossy) or small_norm_parts(plan, world.task.evaluator))
