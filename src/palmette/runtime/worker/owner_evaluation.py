"""A worker that owns data evaluates the whole network on the part of it that is held out."""

from __future__ import annotations

import torch
from safetensors.torch import load as from_bytes

from palmette.runtime.held_out import HeldOutSums, held_out_sums
from palmette.runtime.worker.commands import Evaluate
from palmette.runtime.worker.setup import Setup, WorkerSide
from palmette.zoo.capture import load_state, state
from palmette.zoo.data import load_data


def owner_sums(setup: Setup, side: WorkerSide, command: Evaluate) -> HeldOutSums:
    """The sums on this node's held-out data, with its own weights and those that it was sent."""
    own = setup.evaluation
    assert own is not None, "only owners of data are asked"
    network = own.network()
    sent = from_bytes(command.weights)
    lacking = {name for name in state(network.layers) if name not in sent}
    held = [number for number, layer in enumerate(network.layers, 1) if lacking.intersection(layer.state_names)]
    own_weights = side.state(held)[0] if held else {}
    load_state(network.layers, {**own_weights, **sent})
    part = load_data(own.data, setup.shapes[0]).held_out
    return held_out_sums(network, part, setup.objective, getattr(torch, setup.options.dtype), command.batch)
