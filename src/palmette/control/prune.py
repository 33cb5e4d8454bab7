"""``palmette prune``: a network, fresh or from a file of weights, made smaller and written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from palmette.compress.channels import PruningOrigin
from palmette.compress.distillation import Distillation, distill
from palmette.compress.networks import network_origin, prune_network
from palmette.control.weights import load, pruning_of, read_weights, save_network, shrunk
from palmette.errors import Fault, InputError
from palmette.zoo.capture import parameters
from palmette.zoo.data import load_data
from palmette.zoo.freezing import refuse_all_frozen
from palmette.zoo.models import load_network


@dataclass(frozen=True, kw_only=True)
class Smaller:
    """What a network was made of: the fraction of the original's parameters asked for, and what is really gone."""

    model: str
    pruning: float
    removed: float
    original_parameters: int
    parameters: int
    compress: str


@dataclass(frozen=True, kw_only=True)
class Wish:
    """How a network is to be made smaller: what is asked for beside the network itself."""

    ratio: float
    compress: Literal["prune", "distill"] = "prune"
    data: str = "digits"
    model: str | None = None
    input_shape: tuple[int, ...] | None = None
    seed: int = 0


def prune_to_file(source: str, wish: Wish, path: Path) -> Smaller:
    """Make a network smaller, of a name or with the weights of a file, and write it.

    Raises:
        InputError: there is no such network or file, or it cannot be pruned that far.
        RunError: the file cannot be written.
    """
    values, about = read_weights(source, "WEIGHTS") if is_file(source) else ({}, {})
    whole = load_network(_name(source, about, wish), wish.input_shape, seed=wish.seed)
    origin, lost = network_origin(whole), pruning_of(about, source)
    _refuse_ratio(wish.ratio, lost, origin)
    network = shrunk(whole, lost, origin)
    if values:
        load(network, values, source)
    smaller, pruned = prune_network(network, wish.ratio, origin=origin)
    if wish.compress == "distill":
        refuse_all_frozen(smaller.name, smaller.layers)
        data = load_data(wish.data, network.input_shape)
        distill(smaller, network, data.train, np.arange(len(data.train)), Distillation(seed=wish.seed))
    save_network(smaller, wish.ratio, path)
    return Smaller(
        model=network.name,
        pruning=wish.ratio,
        removed=pruned.removed,
        original_parameters=origin.parameters,
        parameters=sum(weight.numel() for weight in parameters(smaller.layers).values()),
        compress=wish.compress,
    )


def is_file(source: str) -> bool:
    """Whether a file of weights is meant, not a network's name."""
    return source.endswith(".safetensors") or Path(source).is_file()


def _name(source: str, about: Mapping[str, str], wish: Wish) -> str:
    """The network's name: the one given, or what a file says that its weights are of."""
    if not is_file(source):
        return source
    name = wish.model or about.get("model")
    if name is None:
        expected = "the file does not say whose weights they are; give the network, e.g. --model lenet5"
        raise InputError(Fault("WEIGHTS", source, expected))
    return name


def _refuse_ratio(ratio: float, lost: float, origin: PruningOrigin) -> None:
    if 0 <= ratio < lost:
        expected = f"the file has lost {lost:g}, and what is gone does not come back; expected at least that"
        raise InputError(Fault("--ratio", ratio, expected))
    try:
        origin.cuts(ratio)
    except InputError as error:
        raise InputError(Fault("--ratio", ratio, fault.expected) for fault in error.faults) from None
