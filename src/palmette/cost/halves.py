"""Backward in two halves: the gradient of the input first, those of the weights when nobody waits for the node.

Only the instances before one wait for its backward, and only for the gradient of its input; the gradients of its
weights wait for the update. So with ``order: zero-bubble`` (Qi and others, "Zero Bubble Pipeline Parallelism", 2024)
the first half leaves at once, and the second fills the time in which the node would wait (``order`` says when):

    whole    │ backward      │ gradient ─▶ …       halves   │ input │ gradient ─▶ …
                                                                    │ weights │

Between the two an instance keeps its activations, and the gradients of the outputs inside it, which take at most as
much again. An instance goes back whole where halves are of no use: it holds the first layers that learn, so that nobody
waits for it; none of its weights learn; it recomputes, which keeps less only if nothing waits; its gradients leave in
buckets; or a parameter server updates.
"""

from __future__ import annotations

from collections.abc import Collection

from palmette.cost.order import takes_turns
from palmette.cost.sizes import Sizes
from palmette.spec.plan import Phase


def halved_instances(phase: Phase, sizes: Sizes, divided: Collection[int] = ()) -> frozenset[int]:
    """The numbers of the instances whose backward falls into halves; those that are ``divided`` into parts do not."""
    if phase.order != "zero-bubble" or phase.sync_kind.has_server or not takes_turns(phase):
        return frozenset()
    return frozenset(
        k
        for k, instance in enumerate(phase.instances)
        if not instance.recompute
        and k not in divided
        and instance.layers[0] > 1
        and sizes.has_gradient(instance.layers[0] - 1)
        and sizes.trainable_bytes([instance.layers])
    )
