"""The simplest plan: the whole network on one node."""

from __future__ import annotations

from palmette.plan.core.samples import samples_by_source
from palmette.plan.core.strategy import Task
from palmette.spec.plan import Phase
from palmette.spec.tree import Feed, Instance


def on_one_node(node: str, task: Task) -> Phase:
    """The phase with the whole network on one node, and the data of all sources."""
    share = task.cluster.nodes[node].limits.cpu_share
    feeds = tuple(Feed(node=source, samples=many, into="all") for source, many in samples_by_source(task).items())
    last = len(task.profile.layers)
    return Phase(sources=feeds, instances=(Instance(id="all", layers=(1, last), node=node, cpu_share=share),))
