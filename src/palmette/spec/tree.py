"""Instance trees: which layers run where on which samples, and whether they join.

    phone ──40──▶ S[1..2]@server ──┐
    phone ──24──▶ O1[1..2]@cloud ──┴─▶ O2[3..5]@cloud   (a root: computes the loss)

Sources feed instances that start at layer 1; an instance feeds the one that goes on with the next layer;
a root ends with the last layer. Several roots make a forest of replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from palmette.spec.cluster import Share
from palmette.spec.codec import PLAIN, Codec
from palmette.spec.document import Count, Flag, LocatedFault, Name, OpenDocument

LayerNumber = Annotated[int, Field(strict=True, ge=1, le=10**6)]


Delivery = Literal["each", "once"]
"""How samples reach another node: sent for each iteration that uses them, or once, and kept there."""


class Feed(OpenDocument):
    """A source in a tree: how many of the samples at ``node`` an iteration takes, and into which instance."""

    node: Name
    samples: Count
    epoch_samples: Count | None = None
    into: Name
    delivery: Delivery = "each"

    @model_serializer(mode="wrap")
    def _without_the_usual_delivery(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files name the delivery where it is not the usual one."""
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if (key, value) != ("delivery", "each")}


class Instance(OpenDocument):
    """A run of consecutive layers on a node; ``layers`` are its first and last, from 1.

    With ``recompute`` it keeps only some of its activations from forward to backward, and computes the others again.
    """

    id: Name
    layers: tuple[LayerNumber, LayerNumber]
    node: Name
    cpu_share: Share = 1.0
    into: Name | None = None
    codec: Codec = PLAIN
    recompute: Flag = False

    @model_serializer(mode="wrap")
    def _without_the_usual_memory(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files say so where an instance recomputes."""
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if (key, value) != ("recompute", False)}


def wrong_tree(sources: Sequence[Feed], instances: Sequence[Instance]) -> list[LocatedFault]:
    """Everything that keeps sources and instances, all well in themselves, from being a forest that joins."""
    index = {instance.id: k for k, instance in enumerate(instances)}
    return _cycles(instances, index) or [
        *_wrong_joins(sources, instances, index),
        *_unfed(sources, instances),
        *_wrong_roots(instances),
    ]


def wrong_instances(instances: Sequence[Instance]) -> Iterable[LocatedFault]:
    """Ids that are not their own, and layers in the wrong order."""
    index = {instance.id: k for k, instance in enumerate(instances)}
    for k, instance in enumerate(instances):
        if index[instance.id] != k:
            yield LocatedFault(("instances", k, "id"), instance.id, "stands there twice; expected an id of its own")
        if instance.layers[0] > instance.layers[1]:
            first, last = instance.layers
            yield LocatedFault(
                ("instances", k, "layers"), f"[{first}, {last}]", "expected the first layer before the last"
            )


def _cycles(instances: Sequence[Instance], index: dict[str, int]) -> list[LocatedFault]:
    leads_to_root: set[str] = set()
    for k, instance in enumerate(instances):
        trail, at = {instance.id: None}, instance  # a dict: a long chain is searched at every step
        while at.into is not None and at.into not in leads_to_root:
            if at.into in trail:
                ids = list(trail)
                circle = [*ids[ids.index(at.into) :], at.into]
                return [LocatedFault(("instances", k, "into"), " → ".join(circle), "expected a tree, this is a cycle")]
            at = instances[index[at.into]]
            trail[at.id] = None
        leads_to_root.update(trail)
    return []


def _wrong_joins(
    sources: Sequence[Feed], instances: Sequence[Instance], index: dict[str, int]
) -> Iterable[LocatedFault]:
    for k, source in enumerate(sources):
        first = instances[index[source.into]].layers[0]
        if first != 1:
            yield LocatedFault(
                ("sources", k, "into"),
                source.into,
                f"starts at layer {first}; expected an instance that starts at 1",
            )
    for k, instance in enumerate(instances):
        if instance.into is not None:
            first, last = instances[index[instance.into]].layers[0], instance.layers[1]
            if first != last + 1:
                expected = f"{instance.into} starts at layer {first}; expected {last + 1}, the next after {instance.id}"
                yield LocatedFault(("instances", k, "into"), instance.into, expected)


def _unfed(sources: Sequence[Feed], instances: Sequence[Instance]) -> Iterable[LocatedFault]:
    fed = {source.into for source in sources} | {instance.into for instance in instances}
    for k, instance in enumerate(instances):
        if instance.id not in fed:
            yield LocatedFault(
                ("instances", k), instance.id, "nothing feeds it; expected a source or an instance into it"
            )


def _wrong_roots(instances: Sequence[Instance]) -> Iterable[LocatedFault]:
    end = max(instance.layers[1] for instance in instances)
    for k, instance in enumerate(instances):
        if instance.into is None and instance.layers[1] != end:
            expected = f"a root ends with the last layer; expected {end}, or an instance to go into"
            yield LocatedFault(("instances", k, "layers"), f"[{instance.layers[0]}, {instance.layers[1]}]", expected)
