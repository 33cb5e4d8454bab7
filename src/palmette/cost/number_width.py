"""A profile for training in double precision: whatever has floats is twice as large.

Weights, gradients, optimizer state, outputs and activations are; stored samples and integers are not. Times stay as
they were measured: how much slower 64-bit floats are differs from machine to machine.
"""

from __future__ import annotations

from typing import Literal, get_args

from palmette.errors import ArgumentFault, InputError, expected_name
from palmette.spec.codec import FLOAT_BYTES
from palmette.spec.profile import Layer, Profile, Table

FloatType = Literal["float32", "float64"]
WIDTHS: dict[FloatType, int] = {"float32": FLOAT_BYTES, "float64": 2 * FLOAT_BYTES}


def in_float_type(profile: Profile, name: str) -> Profile:
    """The profile of a training whose floats have this type; ``name`` is that of torch.

    Raises:
        InputError: weights cannot be of that type.
    """
    if name not in get_args(FloatType):
        raise InputError(ArgumentFault("dtype", name, expected_name(name, "type of floats", list(WIDTHS))))
    factor = WIDTHS[name] / profile.float_bytes  # type: ignore[index]
    if factor == 1:
        return profile
    wider = {key: _table(table, factor) for key, table in profile.variants.items()}
    whole = _table(profile, factor)
    changed = {
        "layers": whole.layers,
        "ties": whole.ties,
        "variants": wider,
        "float_bytes": int(profile.float_bytes * factor),
        "input_bytes": profile.input_bytes * factor,
        "sample_bytes": profile.sample_bytes or profile.input_bytes,
    }
    return profile.model_copy(update=changed)


def _table(table: Table, factor: float) -> Table:
    layers = tuple(_layer(layer, factor) for layer in table.layers)
    ties = tuple(tie.model_copy(update={"parameter_bytes": tie.parameter_bytes * factor}) for tie in table.ties)
    return Table(layers=layers, nodes=table.nodes, ties=ties)


def _layer(layer: Layer, factor: float) -> Layer:
    scaled = {
        name: value * factor
        for name in ("parameter_bytes", "activation_bytes", "gradient_bytes", "trainable_bytes")
        if (value := getattr(layer, name)) is not None
    }
    floats = layer.output_bytes - layer.uncoded_bytes
    return layer.model_copy(update={**scaled, "output_bytes": floats * factor + layer.uncoded_bytes})
