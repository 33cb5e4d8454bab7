"""Plans that begin with an upload: all samples to one node once, the whole network there.

Upload first, and train then; or train on the way, on samples as they arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palmette.cost.delivery import sending_sources
from palmette.errors import PalmetteError
from palmette.plan.core.choice import PricedPhase, best, score
from palmette.plan.core.delivery import delivered, delivered_ahead, may_be_kept
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.recompute import recompute_to_fit
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Phase


def upload_to(node: str, task: Task, *, ahead: bool = False) -> Phase:
    """The phase in which a node is sent all samples that it does not own, and keeps them; ``ahead``: on the way."""
    phase = recompute_to_fit(on_one_node(node, task), task)
    sending = sending_sources(phase)
    found = delivered_ahead(phase, sending, task) if ahead and sending else delivered(phase, sending)
    return recompute_to_fit(found, task)


def upload_nodes(task: Task) -> list[str]:
    """The nodes with times in the profile that no stream would have to be sent to, since its samples cannot be kept."""
    streams = {name for name in task.cluster.sources() if not may_be_kept(name, task.cluster)}
    return [name for name in task.cluster.nodes if name in task.profile.nodes and streams <= {name}]


def ways_to_begin(task: Task, nodes: Sequence[str]) -> dict[str, Any] | None:
    """Training on the way against upload first, each on its best of some nodes, as it stands in a decision.

    None where nothing has to be uploaded, or nothing can be.
    """
    begun = (("on the way", True), ("upload first", False))
    found = {way: _best_upload(task, nodes, ahead=ahead) for way, ahead in begun}
    ways = {way: priced for way, priced in found.items() if priced is not None and sending_sources(priced.phase)}
    if len(ways) < 2:
        return None
    spent = [task.evaluator.mean_iteration(priced.price, task.horizon) for priced in ways.values()]
    scores = dict(zip(ways, score(spent, task.goal), strict=True))
    wins = min(scores, key=scores.__getitem__)
    return {
        "epochs": task.horizon,
        "wins": wins,
        "factor": max(scores.values()) / scores[wins] if scores[wins] else 1.0,
        "ways": [_way(name, priced, task) for name, priced in ways.items()],
    }


def _best_upload(task: Task, nodes: Sequence[str], *, ahead: bool) -> PricedPhase | None:
    try:
        return best([upload_to(node, task, ahead=ahead) for node in nodes], task)
    except PalmetteError:
        return None


def _way(name: str, priced: PricedPhase, task: Task) -> dict[str, Any]:
    price = priced.price
    return {
        "way": name,
        "node": priced.phase.instances[0].node,
        "first_epoch_s": price.first_epoch.time_s,
        "epoch_s": price.epoch.time_s,
        "total_s": price.total_s(task.horizon),
        "total_j": price.total_j(task.horizon),
    }
