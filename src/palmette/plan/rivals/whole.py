"""The whole network on one node: all-device, all-edge, all-cloud.

Raw data of every source goes to that node. Where a tier has several nodes, the best one for the goal is taken. A node
whose memory does not hold all activations recomputes them, as a user of PyTorch would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from palmette.cost.evaluate import Evaluator
from palmette.errors import Fault, InputError
from palmette.plan.core.choice import best
from palmette.plan.core.one_node import on_one_node
from palmette.plan.core.recompute import recompute_price, recompute_to_fit
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.spec.cluster import Tier
from palmette.spec.plan import Phase


@dataclass(frozen=True)
class _OneNode(Strategy):
    tier: ClassVar[Tier]
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True
    uses_one_node: ClassVar[bool] = True
    plans_quickly: ClassVar[bool] = True

    def decide(self, task: Task) -> Decision:
        """Put the whole network on the best node of the tier."""
        nodes = task.cluster.tier(self.tier)
        if not nodes:
            raise InputError(Fault("nodes", f"no node of tier {self.tier}", "expected at least one"))
        phase = best([recompute_to_fit(on_one_node(node, task), task) for node in nodes], task).phase
        node = phase.instances[0].node
        variables = {
            "iteration_s": sequential_s(phase, task.evaluator),
            "nodes": [node] * len(task.profile.layers),
        }
        return Decision((phase,), variables | recompute_price(phase, task))


class AllDevice(_OneNode):
    """The whole network on a device."""

    name: ClassVar[str] = "all-device"
    summary: ClassVar[str] = "the whole network on one device"
    tier = "device"


class AllEdge(_OneNode):
    """The whole network on an edge server."""

    name: ClassVar[str] = "all-edge"
    summary: ClassVar[str] = "the whole network on one edge server"
    tier = "edge"


class AllCloud(_OneNode):
    """The whole network in the cloud."""

    name: ClassVar[str] = "all-cloud"
    summary: ClassVar[str] = "the whole network on one cloud server"
    tier = "cloud"


STRATEGIES = (AllDevice, AllEdge, AllCloud)


def sequential_s(phase: Phase, evaluator: Evaluator) -> float:
    """Seconds of an iteration on one node, transfers and computing one after the other; what is kept has arrived."""
    (instance,) = phase.instances
    seconds, sizes = evaluator.seconds(instance.node), evaluator.sizes()
    sent = [source for source in phase.sources if source.delivery == "each"]
    routes = [(evaluator.route(source.node, instance.node), source) for source in sent]
    sending = sum(
        route.transfer_s(source.samples * sizes.sample_bytes(source.node)) for route, source in routes if route.hops
    )
    first, last = instance.layers
    computing = seconds.forward_s(first, last, phase.batch) + seconds.backward_s(first, last, phase.batch)
    if instance.recompute:
        computing += sum(seconds.recompute_s(*run, phase.batch) for run in sizes.blocks(instance.layers))
    return sending + (computing + seconds.update_s(first, last)) / instance.cpu_share
