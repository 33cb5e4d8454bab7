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


def labels_by_instance(phase: Phase) -> list[int]:
    """The labels that leave each instance beside its output: of the samples that reach it, those that travel."""
    instances = {instance.id: k for k, instance in enumerate(phase.instances)}
    labels = [0] * len(phase.instances)
    for source, leaves in zip(phase.sources, travelling(phase), strict=True):
        at: str | None = source.into if leaves else None
        while at is not None:
            labels[instances[at]] += source.samples
            at = phase.instances[instances[at]].into
    return labels


def travelling(phase: Phase) -> list[bool]:
    """For each source, whether its labels leave its node: the loss is computed on another."""
    return [source.node != root.node for source, root in zip(phase.sources, roots(phase), strict=True)]
