"""The profile: what each layer costs, in bytes and FLOPs, and in seconds on each node."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from palmette.spec.document import Count, LocatedFault, Name, Number, OpenDocument, Positive, refuse

Seconds = tuple[Number, ...]


class Layer(OpenDocument):
    """One layer's sizes: its weights, one sample of its output, what a sample keeps for backward.

    ``batch_norm_channels`` are those of each batch norm in it, in the order in which they run. ``output_channels`` is
    the first dimension of one sample's output, for which a codec sends a scale each; where a profile lacks it, scales
    are not counted.
    """

    name: Name
    parameter_bytes: Number
    output_bytes: Number
    flops: Number = 0.0
    activation_bytes: Number | None = None
    batch_norm_channels: tuple[Count, ...] = ()
    output_channels: Count | None = None

    @property
    def kept_bytes(self) -> float:
        """Bytes a sample keeps until backward; the output where nothing else is known."""
        return self.output_bytes if self.activation_bytes is None else self.activation_bytes


class Times(OpenDocument):
    """Seconds of each layer on one node: a sample forward and backward, a call's fixed part, an update.

    ``prune_s``, of a variant: seconds that it takes the node to prune the network down to it.
    """

    forward_s: Seconds
    backward_s: Seconds
    update_s: Seconds
    forward_call_s: Seconds | None = None
    backward_call_s: Seconds | None = None
    prune_s: Number | None = None
    source: Literal["measured", "modelled"] = "modelled"


class Table(OpenDocument):
    """Layers and their times on each node, one entry a layer in every array."""

    layers: tuple[Layer, ...]
    nodes: dict[Name, Times]

    @model_validator(mode="after")
    def _one_entry_a_layer(self) -> Self:
        wrong = [
            LocatedFault(("nodes", node, field), f"{len(array)} values", f"expected {len(self.layers)}, one a layer")
            for node, times in self.nodes.items()
            for field, array in times
            if isinstance(array, tuple) and len(array) != len(self.layers)
        ]
        if wrong:
            refuse("Profile", wrong)
        return self


class Profile(Table):
    """A network's layers on the nodes of a cluster; ``variants`` are the same for pruned networks."""

    format: Literal["palmette.profile/1"] = "palmette.profile/1"
    model: Name
    input_bytes: Positive
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    variants: dict[str, Table] = {}

    @model_validator(mode="after")
    def _ratios_are_numbers(self) -> Self:
        wrong = [
            LocatedFault(("variants", key), key, "expected a fraction of removed parameters, from 0 to below 1")
            for key in self.variants
            if _ratio(key) is None
        ]
        if wrong:
            refuse("Profile", wrong)
        return self

    def variant(self, pruning: float) -> Table | None:
        """The table of the network with this fraction of its parameters removed; None where there is none."""
        if pruning == 0:
            return self
        return next((table for key, table in self.variants.items() if _ratio(key) == pruning), None)

    def to_json(self) -> str:
        """The profile as the text of a ``profile.json``."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False) + "\n"


def _ratio(text: str) -> float | None:
    try:
        ratio = float(text)
    except ValueError:
        return None
    return ratio if 0 <= ratio < 1 else None
