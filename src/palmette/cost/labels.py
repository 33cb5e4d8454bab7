"""Where labels are needed: at the root that computes the loss of their samples. Pure.

phone ─▶ front@phone ─▶ middle@server ─▶ back@phone     no label travels: the loss is computed where they are
phone ─▶ front@phone ─▶ back@cloud                      labels go to the cloud, beside the outputs
"""

from __future__ import annotations

from palmette.spec.plan import Phase
from palmette.spec.tree import Instance


def roots(phase: Phase) -> list[Instance]:
    """For each source, the instance that computes the loss of its samples."""
    instances = {instance.id: instance for instance in phase.instances}
    found = []
    for source in phase.sources:
        at = instances[source.into]
        while at.into is not None:
            at = instances[at.into]
        found.append(at)
    return found


def travelling(phase: Phase) -> list[bool]:
    """For each source, whether its labels leave its node: the loss is computed on another."""
    return [source.node != root.node for source, root in zip(phase.sources, roots(phase), strict=True)]
