"""The profile: what each layer costs, in bytes and FLOPs, and in seconds on each node."""

from __future__ import annotations

import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from palmette.errors import listed
from palmette.spec.display import Displayed
from palmette.spec.document import Count, LocatedFault, Name, Number, OpenDocument, Positive, refuse
from palmette.spec.reading import size

Seconds = tuple[Number, ...]
Shape = tuple[Count, ...]
CodingSeconds = dict[Name, tuple[Number, Number]]
"""Seconds per number for compressing and extracting, by codec."""


_ROUNDING = 1 + 1e-9


class Layer(OpenDocument):
    """One layer's sizes: its weights, one sample of its output, what a sample keeps for backward.

    ``output_bytes`` are those of all tensors that pass on to the next layer; ``gradient_bytes`` those of the gradients
    that come back, as many where a profile lacks them: none for integers, and none where nothing before learns.
    ``trainable_bytes`` are those of the weights that are not frozen, of all where a profile lacks them.
    ``batch_norm_channels`` are those of each batch norm in it, in the order in which they run. ``output_channels`` is
    the first dimension of one sample's output, for which a codec sends a scale each (of several tensors, the sum), and
    ``gradient_channels`` that of its gradient; where a profile lacks it, scales are not counted. ``uncoded_bytes`` are
    those of the output that every codec leaves as they are: integers. ``mixes_samples``: what it returns for one sample
    depends on the others, batch norm aside, so that a batch is not divided over several of its instances.
    ``weight_shapes`` are those of the trained weights that no other layer uses; where a profile lacks them, codecs of
    an exchange are priced as for one weight.
    """

    name: Name
    parameter_bytes: Number
    output_bytes: Number
    flops: Number = 0.0
    activation_bytes: Number | None = None
    batch_norm_channels: tuple[Count, ...] = ()
    output_channels: Count | None = None
    gradient_bytes: Number | None = None
    gradient_channels: Count | None = None
    uncoded_bytes: Number = 0.0
    trainable_bytes: Number | None = None
    mixes_samples: bool = False
    weight_shapes: tuple[Shape, ...] | None = None

    @property
    def returned_bytes(self) -> float:
        """Bytes of the gradient that comes back for one sample; those of the output where nothing else is known."""
        return self.output_bytes if self.gradient_bytes is None else self.gradient_bytes

    @property
    def learned_bytes(self) -> float:
        """Bytes of the weights that are trained; of all where nothing else is known."""
        return self.parameter_bytes if self.trainable_bytes is None else self.trainable_bytes

    @property
    def returned_channels(self) -> int | None:
        """The channels of the gradient that comes back; those of the output where nothing else is known."""
        return self.output_channels if self.gradient_channels is None else self.gradient_channels

    @property
    def kept_bytes(self) -> float:
        """Bytes a sample keeps until backward; the output where nothing else is known."""
        return self.output_bytes if self.activation_bytes is None else self.activation_bytes


class Times(OpenDocument):
    """Seconds of each layer on one node: a sample forward and backward, a call's fixed part, an update.

    ``backward_input_s`` is the part of ``backward_s`` for the gradient of the input alone, where backward falls into
    halves; the fixed part of a call falls as its seconds a sample do.

    ``prune_s``, of a variant: seconds that it takes the node to prune the network down to it. ``decode_s``: seconds to
    turn one stored sample into an input, which are included in ``forward_s`` of layer 1. ``coding_s``: seconds to
    compress and to extract one number of a message, by codec; not counted where a profile lacks them.
    """

    forward_s: Seconds
    backward_s: Seconds
    update_s: Seconds
    forward_call_s: Seconds | None = None
    backward_call_s: Seconds | None = None
    backward_input_s: Seconds | None = None
    prune_s: Number | None = None
    decode_s: Number | None = None
    coding_s: CodingSeconds | None = None
    source: Literal["measured", "modelled"] = "modelled"


class Tie(OpenDocument):
    """A weight that several layers use: its name, its bytes, the layers, from 1, and its shape, if known."""

    name: Name
    parameter_bytes: Number
    layers: Annotated[tuple[Count, ...], Field(min_length=2)]
    shape: Shape | None = None


class Table(OpenDocument):
    """Layers and their times on each node, one entry per layer in every array.

    ``ties`` are trained weights that several layers use; they count in ``parameter_bytes`` of each of them.
    """

    layers: tuple[Layer, ...]
    nodes: dict[Name, Times]
    ties: tuple[Tie, ...] = ()

    @model_validator(mode="after")
    def _ties_are_of_layers(self) -> Self:
        depth = len(self.layers)
        wrong = [
            LocatedFault(("ties", str(k), "layers"), str(max(tie.layers)), f"expected at most {depth}, the last layer")
            for k, tie in enumerate(self.ties)
            if max(tie.layers) > depth
        ]
        if wrong:
            refuse("Profile", wrong)
        return self

    @model_validator(mode="after")
    def _input_is_a_part(self) -> Self:
        wrong = [
            LocatedFault(
                ("nodes", node, "backward_input_s", k), part_s, f"expected at most {whole_s}, all of backward_s"
            )
            for node, times in self.nodes.items()
            for k, (part_s, whole_s) in enumerate(zip(times.backward_input_s or (), times.backward_s, strict=False))
            if part_s > whole_s * _ROUNDING
        ]
        if wrong:
            refuse("Profile", wrong)
        return self

    @model_validator(mode="after")
    def _one_entry_a_layer(self) -> Self:
        wrong = [
            LocatedFault(("nodes", node, field), f"{len(array)} values", f"expected {len(self.layers)}, one per layer")
            for node, times in self.nodes.items()
            for field, array in times
            if isinstance(array, tuple) and len(array) != len(self.layers)
        ]
        if wrong:
            refuse("Profile", wrong)
        return self


class Profile(Displayed, Table):
    """A network's layers on the nodes of a cluster; ``variants`` are the same for pruned networks.

    ``input_bytes`` is one sample as the network takes it; ``sample_bytes`` one as it is stored, the same if None.
    ``precision`` is that of forward and backward where times were measured, if not that of the weights;
    ``float_bytes`` is how wide the numbers are that its sizes count.
    ``notes`` say which layers cannot be cut further, and why, and which share weights.
    """

    format: Literal["palmette.profile/1"] = "palmette.profile/1"
    model: Name
    input_bytes: Positive
    sample_bytes: Positive | None = None
    precision: Literal["bf16", "fp16"] | None = None
    float_bytes: Literal[4, 8] = 4
    layers: Annotated[tuple[Layer, ...], Field(min_length=1)]
    notes: tuple[str, ...] = ()
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

    def __repr__(self) -> str:
        weights = size(sum(layer.parameter_bytes for layer in self.layers))
        smaller = f"; pruned by {listed(list(self.variants))}" if self.variants else ""
        nodes = listed(list(self.nodes)) or "no node"
        return f"Profile({self.model}: {len(self.layers)} layers, {weights} of weights, on {nodes}{smaller})"

    def to_json(self) -> str:
        """The profile as the text of a ``profile.json``."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False) + "\n"


def _ratio(text: str) -> float | None:
    try:
        ratio = float(text)
    except ValueError:
        return None
    return ratio if 0 <= ratio < 1 else None
