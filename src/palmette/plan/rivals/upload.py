"""Upload: everything to the best node once, then the whole network there; what users do without a planner.

Samples that the node does not own are sent in the first epoch and kept. Nothing overlaps: the first epoch takes as long
as the upload and an epoch. Which node is best depends on how many epochs share the upload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from palmette.cost.check import forbidden, missing
from palmette.cost.delivery import sending_sources
from palmette.errors import Fault, Infeasible
from palmette.plan.core.choice import best
from palmette.plan.core.delivery import may_be_kept
from palmette.plan.core.recompute import recompute_price
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.core.upload import upload_nodes, upload_to
from palmette.plan.rivals.whole import sequential_s
from palmette.spec.plan import Phase


@dataclass(frozen=True)
class Upload(Strategy):
    """All samples to one node, the whole network there."""

    name: ClassVar[str] = "upload"
    summary: ClassVar[str] = "all samples once to the best node, then the whole network there"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True
    uses_one_node: ClassVar[bool] = True
    plans_quickly: ClassVar[bool] = True

    def decide(self, task: Task) -> Decision:
        """Upload to the node that is best for the goal over all epochs."""
        uploads = {node: upload_to(node, task) for node in upload_nodes(task) or _refuse_streams(task)}
        refused = {node: why for node, phase in uploads.items() if (why := _reason(phase, task)) is not None}
        if refused.keys() == uploads.keys():
            raise Infeasible("; ".join(f"{node}: {why}" for node, why in refused.items()))
        phase, price = best(uploads.values(), task)
        node = phase.instances[0].node
        variables = {
            "node": node,
            "upload_s": price.first_epoch.time_s - price.epoch.time_s,
            "iteration_s": sequential_s(phase, task.evaluator),
            "nodes": [node] * len(task.profile.layers),
        }
        return Decision((phase,), variables | recompute_price(phase, task))


STRATEGIES = (Upload,)


def _refuse_streams(task: Task) -> list[str]:
    """All nodes, if no stream is why there is none to upload to.

    Raises:
        Infeasible: samples that would have to be sent are always new.
    """
    stream = next((name for name in task.cluster.sources() if not may_be_kept(name, task.cluster)), None)
    if stream is None:
        return list(task.cluster.nodes)
    expected = "samples are always new, so that there is nothing to upload; expected data that can be kept"
    raise Infeasible(Fault(f"nodes.{stream}.source.stream", True, expected))


def _reason(phase: Phase, task: Task) -> str | None:
    """What does not let a node have all samples and the whole network; None where it may, or lacks something."""
    private = [name for k in sending_sources(phase) if _is_private(name := phase.sources[k].node, task)]
    if private:
        return f"the data of {private[0]} is private"
    if any(missing(phase, task.evaluator)):
        return None
    fault = next(forbidden(phase, task.evaluator), None)
    return None if fault is None else f"{fault.value} {fault.expected}"


def _is_private(name: str, task: Task) -> bool:
    source = task.cluster.nodes[name].source
    return source is not None and bool(source.private)
