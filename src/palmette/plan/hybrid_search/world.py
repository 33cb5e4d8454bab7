"""What does not change during a search: nodes that can be used, samples of each source, cuts worth trying."""

from __future__ import annotations

from dataclasses import dataclass

from palmette.errors import Fault, InputError
from palmette.plan.hybrid_search.paths import Way
from palmette.plan.samples import by_source
from palmette.plan.strategy import Task

_CUTS = 9
_HELPERS = 6


@dataclass(frozen=True)
class World:
    """The ground that a search moves on."""

    task: Task
    lossless: bool
    nodes: list[str]
    """Nodes that may compute, those first that would train a batch alone soonest."""
    samples: dict[str, int]
    """Samples of a batch from each source, in proportion to what it owns."""
    private: frozenset[str]
    shares: dict[str, float]
    cuts: list[int]
    """Layers after which a first cut is worth trying: small outputs, spread over the depth."""
    helpers: dict[str, list[str]]
    """For each source the nodes that would train its samples soonest, raw data's way included."""

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.task.profile.layers)

    def keeps_private(self, way: Way) -> bool:
        """Whether raw data that may not leave its node stays there."""
        return way.source not in self.private or way.runs[0][0] == way.source


def world(task: Task, lossless: bool) -> World:
    """The ground of a task.

    Raises:
        InputError: no source, fewer samples than sources, no path between sources, or nothing to compute on.
    """
    samples = by_source(task)
    first, *others = samples
    routes = task.evaluator.routes
    apart = [source for source in others if routes.between(first, source) is None]
    if apart:
        expected = "there is no path between them; expected nodes that links join"
        raise InputError(Fault(f"nodes.{source}", f"{first} to {source}", expected) for source in apart)
    known = [n for n in task.cluster.nodes if n in task.profile.nodes and routes.between(first, n) is not None]
    if not known:
        reached = "expected times in the profile for a node that a path leads to"
        raise InputError(Fault("nodes", f"none for the data of {first}", reached))
    return World(
        task=task,
        lossless=lossless,
        nodes=_soonest(task, first, known),
        samples=samples,
        private=frozenset(name for name in samples if _is_private(task, name)),
        shares={name: task.cluster.nodes[name].limits.cpu_share for name in known},
        cuts=_cuts(task),
        helpers={source: _soonest(task, source, known)[:_HELPERS] for source in samples},
    )


def _soonest(task: Task, source: str, nodes: list[str]) -> list[str]:
    """Nodes in the order in which they would be done with a sample of a source."""
    alone = {name: _alone_s(task, source, name) for name in nodes}
    return sorted(nodes, key=alone.__getitem__)


def _is_private(task: Task, name: str) -> bool:
    source = task.cluster.nodes[name].source
    return source is not None and bool(source.private)


def _alone_s(task: Task, source: str, node: str) -> float:
    """Seconds a sample: raw data from a source to a node, and the whole network there."""
    prices, depth = task.evaluator, len(task.profile.layers)
    seconds, share = prices.seconds(node), task.cluster.nodes[node].limits.cpu_share
    computing = (seconds.forward[depth] + seconds.backward[depth]) / share
    return prices.sizes().input_bytes * 8 / prices.route(source, node).bandwidth_bps + computing


def _cuts(task: Task) -> list[int]:
    """Layers with outputs smaller than all before them, thinned out, and an even spread; the last layer too."""
    outputs, depth = task.evaluator.sizes().output_bytes, len(task.profile.layers)
    falling = [k for k in range(1, depth) if outputs[k] < min(outputs[1:k], default=float("inf"))]
    thinned = falling[:: max(1, len(falling) // _CUTS)]
    spread = range(1, depth, max(1, depth // _CUTS))
    return sorted({*thinned, *spread, depth})
