"""From plan, profile and cluster to the estimate that files and users see."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple, assert_never

from palmette.cost.check import check
from palmette.cost.clock import Timing
from palmette.cost.delivery import kept_pairs, upload_pairs
from palmette.cost.evaluate import Evaluator, Price
from palmette.cost.frozen import frozen_bytes, saved_bytes
from palmette.cost.handover import change_price
from palmette.cost.kept_outputs import keeps_outputs
from palmette.cost.optimizer import OptimizerCost, known_optimizer
from palmette.cost.steps import HALVES, Iteration, Kind, Step, is_background
from palmette.cost.warnings import warnings_of
from palmette.errors import InputError
from palmette.spec.cluster import Cluster
from palmette.spec.estimate import Estimate, NodeEstimate
from palmette.spec.exchange import PLAIN_EXCHANGE, Exchange
from palmette.spec.goal import Spending
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.spec.trace import Op, Operation

DECLARED = "modelled: declared power of the nodes and energy a bit of the links"

_recent: deque[Evaluator] = deque(maxlen=4)


def evaluator(
    profile: Profile,
    cluster: Cluster,
    optimizer: str | OptimizerCost = "sgd",
    exchange: Exchange = PLAIN_EXCHANGE,
) -> Evaluator:
    """The evaluator of a profile and a cluster; a recent one is used again.

    ``exchange`` is how gradients travel in phases that do not say so themselves.

    Raises:
        InputError: there is no such optimizer.
    """
    for known in _recent:
        same = known.profile is profile and known.cluster is cluster and known.exchange == exchange
        if same and known.optimizer == known_optimizer(optimizer):
            return known
    _recent.append(Evaluator(profile, cluster, optimizer, exchange))
    return _recent[-1]


def estimate(
    plan: Plan,
    profile: Profile,
    cluster: Cluster,
    *,
    optimizer: str | OptimizerCost = "sgd",
    timeline: bool = False,
    epochs: int | None = None,
    moment_s: float | None = None,
) -> Estimate:
    """What a plan costs: time and energy of an iteration and of the whole, and each node's part.

    ``epochs`` is how long a plan of one phase will be used, where it does not say so itself. With ``moment_s``,
    iterations begin at that moment of the traces of links, instead of their mean.

    Raises:
        InputError: the plan cannot be executed; holds every fault.
    """
    prices = evaluator(profile, cluster, optimizer)
    if moment_s is not None:
        prices = Evaluator(profile, cluster, optimizer, moment_s=moment_s)
    wrong = check(plan, prices)
    if wrong:
        raise InputError(wrong)
    return summary(plan, prices, timeline=timeline, epochs=epochs)


def summary(plan: Plan, prices: Evaluator, *, timeline: bool = False, epochs: int | None = None) -> Estimate:
    """The estimate of a plan that ``check`` finds nothing wrong with."""
    priced = [prices.price(phase) for phase in plan.phases]
    first, phase = priced[0], plan.phases[0]
    changes = _sum([change_price(before, after, prices) for before, after in pairwise(plan.phases)])
    whole = _whole(plan, priced, epochs, prices)
    total = whole.spent.plus(changes) if whole else None
    several = len(plan.phases) > 1
    return Estimate(
        iteration_s=first.iteration_s,
        iteration_j=first.iteration_j,
        first_iteration_s=first.first_iteration_s,
        epoch_s=first.epoch.time_s,
        epoch_j=first.epoch.energy_j,
        epoch_bytes=first.epoch.sent_bytes,
        epoch_iterations=first.epoch_iterations,
        epoch_batches=math.ceil(phase.round_fraction * sum(prices.epoch_samples(phase).values()) / plan.batch),
        first_epoch_s=first.first_epoch.time_s,
        first_epoch_j=first.first_epoch.energy_j,
        first_epoch_bytes=first.first_epoch.sent_bytes,
        epochs=whole.epochs if whole else None,
        total_s=total.time_s if total else None,
        total_j=total.energy_j if total else None,
        total_bytes=whole.sent_bytes if whole else None,
        changes_s=changes.time_s if several else None,
        changes_j=changes.energy_j if several else None,
        currency=prices.cluster.currency,
        **_money_and_carbon(first, total, prices),
        frozen_bytes=frozen_bytes(prices.profile) or None,
        saved_bytes=saved_bytes(phase, first, prices),
        energy_source=None if first.iteration_j is None else DECLARED,
        warnings=tuple(warnings_of(plan, prices)),
        nodes=_nodes(phase, prices, first),
        timeline=_timeline(first) if timeline else None,
    )


def _money_and_carbon(first: Price, total: Spending | None, prices: Evaluator) -> dict[str, Any]:
    """What the parts of the training cost and emit, by the names of the estimate's fields."""
    parts = {
        "iteration": prices.spending(first.nodes, first.iteration_s),
        "epoch": prices.total(first, 1, delivered=True),
        "first_epoch": prices.total(first, 1),
    }
    parts |= {} if total is None else {"total": total}
    costs = {f"{name}_cost": spent.cost for name, spent in parts.items()}
    return costs | {f"{name}_carbon_g": spent.carbon_g for name, spent in parts.items()}


class _Whole(NamedTuple):
    """All epochs of a plan, changes between its phases aside."""

    epochs: int
    spent: Spending
    sent_bytes: float


def _whole(plan: Plan, priced: list[Price], epochs: int | None, prices: Evaluator) -> _Whole | None:
    """The epochs of all phases; None where it is not known how many they are."""
    lengths = [phase.epochs for phase in plan.phases]
    if lengths == [None]:
        lengths = [epochs]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths):
        return None
    there: set[tuple[str, str]] = set()
    sent_bytes, spent = 0.0, list[Spending]()
    for phase, price, many in zip(plan.phases, priced, known, strict=True):
        delivered = bool(kept_pairs(phase)) and kept_pairs(phase) <= there and not keeps_outputs(phase)
        there |= kept_pairs(phase) | upload_pairs(phase)
        spent.append(prices.total(price, many, delivered=delivered))
        sent_bytes += price.sent_bytes(many, delivered=delivered)
    return _Whole(sum(known), _sum(spent), sent_bytes)


def _sum(spent: list[Spending]) -> Spending:
    """All of it, one after the other."""
    return reduce(Spending.plus, spent, Spending(0.0, 0.0, 0.0, 0.0))


def _nodes(phase: Phase, prices: Evaluator, price: Price) -> dict[str, NodeEstimate]:
    peaks = prices.peak_bytes(phase)
    spent = {name: prices.spending({name: part}, price.iteration_s) for name, part in price.nodes.items()}
    return {
        name: NodeEstimate(
            busy_s=part.busy_s,
            energy_j=spent[name].energy_j,
            cost=spent[name].cost,
            carbon_g=spent[name].carbon_g,
            sent_bytes=part.sent_bytes,
            received_bytes=part.received_bytes,
            peak_memory_bytes=peaks.get(name, 0.0),
        )
        for name, part in price.nodes.items()
    }


class Transfer(NamedTuple):
    """A message of an iteration, from a node to an instance on another; one in the background gives way to others."""

    sender: str
    receiver: str
    instance: str
    start_s: float
    end_s: float
    size_bytes: float
    background: bool


def transfers(price: Price) -> list[Transfer]:
    """The messages of the first tree that was played, by their start."""
    phase, made, played = price.played[0]
    into = _takers(phase)
    found = []
    happened = zip(made.steps, played.start_s, played.end_s, made.size_bytes, strict=True)
    for step, start_s, end_s, size_bytes in happened:
        if step.to is not None:
            (sender, _, _), (receiver, instance, _) = _sides(step, phase.instances[step.instance].id, into)
            background = is_background(step.kind, phase)
            found.append(Transfer(sender, receiver, instance, start_s, end_s, size_bytes, background))
    return sorted(found, key=lambda transfer: transfer.start_s)


def _timeline(price: Price) -> tuple[Operation, ...]:
    made = [operation for k, played in enumerate(price.played) for operation in _operations(k, *played)]
    return tuple(sorted(made, key=lambda operation: (operation.iteration, operation.start_s)))


def _operations(number: int, phase: Phase, made: Iteration, played: Timing) -> Iterator[Operation]:
    into = _takers(phase)
    for step, size, start, end in zip(made.steps, made.size_bytes, played.start_s, played.end_s, strict=True):
        for node, instance, op in _sides(step, phase.instances[step.instance].id, into):
            yield Operation(
                iteration=number,
                node=node,
                instance=instance,
                op=op,
                start_s=start,
                end_s=end,
                bytes=size,
                half=HALVES.get(step.kind),
            )


def _takers(phase: Phase) -> dict[str, str]:
    """The instance that takes each one's output; a root is its own."""
    return {instance.id: instance.into or instance.id for instance in phase.instances}


def _sides(step: Step, own: str, into: dict[str, str]) -> list[tuple[str, str, Op]]:
    """The trace's view of an operation: a transfer is a send at one end and a receive at the other."""
    match step.kind:
        case Kind.FORWARD | Kind.RECOMPUTE:
            return [(step.node, own, "forward")]
        case Kind.BACKWARD | Kind.BACKWARD_INPUT | Kind.BACKWARD_WEIGHTS:
            return [(step.node, own, "backward")]
        case Kind.AVERAGE | Kind.COMBINE | Kind.NORM | Kind.DIVISOR:
            return [(step.node, own, "average")]
        case Kind.UPDATE:
            return [(step.node, own, "update")]
        case Kind.OUTPUT:
            return _ends(step, own, into[own])
        case Kind.GRADIENT:
            return _ends(step, into[own], own)
        case Kind.DATA | Kind.UPLOAD | Kind.STATISTICS | Kind.TOTALS | Kind.PUSH | Kind.PULL:
            return _ends(step, own, own)
        case Kind.SQUARES | Kind.TOTAL_NORM | Kind.COUNT | Kind.TOTAL_DIVISOR:
            return _ends(step, own, own)
    assert_never(step.kind)


def _ends(step: Step, sender: str, receiver: str) -> list[tuple[str, str, Op]]:
    assert step.to is not None, "a transfer has a receiver"
    return [(step.node, sender, "send"), (step.to, receiver, "receive")]
