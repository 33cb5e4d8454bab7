"""The base of a run: frozen weights, which training never changes.

Checkpoints leave them out and have their checksum, so that a run of adapters saves adapters alone. It resumes from the
weights that it began with: those that its network is made with, or those of ``--init``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from torch import Tensor

from palmette.errors import ArgumentFault, InputError
from palmette.runtime.worker.messages import pack
from palmette.zoo.capture import NetworkLayer


def base_weights(layers: Iterable[NetworkLayer]) -> dict[str, Tensor]:
    """The frozen weights of some layers by all of their names."""
    return {
        name: weight
        for layer in layers
        for name, weight in layer.module.named_parameters(remove_duplicate=False)
        if not weight.requires_grad
    }


def checksum(weights: Mapping[str, Tensor]) -> str:
    """Tells whether weights are the same, by name and number; empty where there are none."""
    found = hashlib.sha256()
    for name in sorted(weights):
        found.update(name.encode())
        found.update(pack([weights[name]]).numpy().tobytes())
    return found.hexdigest() if weights else ""


def refuse_other_base(layers: Iterable[NetworkLayer], expected: str, folder: str) -> None:
    """Refuse to resume a run on other frozen weights than it began with.

    Raises:
        InputError: they are others.
    """
    if checksum(base_weights(layers)) != expected:
        what = "its frozen weights are not those that the run began with; expected the same network, and --init file"
        raise InputError(ArgumentFault("resume", folder, what))
