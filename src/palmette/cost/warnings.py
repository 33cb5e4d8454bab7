"""What a plan may do to a training that its price does not tell: a sentence for each, for people and scripts alike."""

from __future__ import annotations

from collections.abc import Iterator

from palmette.cost.labels import roots
from palmette.errors import listed
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan


def warnings_of(plan: Plan, cluster: Cluster) -> list[str]:
    """The warnings of all phases of a plan that ``check`` finds nothing wrong with, each once."""
    found = (warning for phase in plan.phases for warning in _of_phase(phase, cluster))
    return list(dict.fromkeys(found))


def _of_phase(phase: Phase, cluster: Cluster) -> Iterator[str]:
    yield from _lossy(phase)
    yield from _labels(phase, cluster)


def _labels(phase: Phase, cluster: Cluster) -> Iterator[str]:
    """Labels of private sources that leave their nodes; those that go to the same node in one sentence."""
    leave: dict[str, dict[str, None]] = {}
    for source, root in zip(phase.sources, roots(phase), strict=True):
        owned = cluster.nodes[source.node].source
        if owned is not None and owned.private and root.node != source.node:
            leave.setdefault(root.node, {})[source.node] = None
    for node, owners in leave.items():
        yield f"labels of {listed(list(owners))} travel to {node}, where the loss is computed"


def _lossy(phase: Phase) -> Iterator[str]:
    """Outputs that arrive as other numbers than were sent."""
    lossy = [instance.id for instance in phase.instances if instance.codec != "none" and instance.into is not None]
    if lossy:
        named = ", ".join(lossy)
        yield f"outputs of {named} travel as 8-bit integers; what that costs in loss is unknown until it is measured"
