"""``palmette prune``: a network, fresh or from a file of weights, made smaller and written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from palmette.compress.channels import PruningOrigin
from palmette.compress.distillation import Distillation, distill
from palmette.compress.networks import network_origin, prune_network
from palmette.control.run.trust import model_code, refuse_untrusted, remember
from palmette.control.weights import load, pruning_of, read_weights, save_network, shrunk
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.zoo.capture import parameters
from palmette.zoo.data import load_data
from palmette.zoo.freezing import refuse_all_frozen
from palmette.zoo.models import load_network

Compression: TypeAlias = Literal["prune", "distill"]
"""How a smaller model is made: by pruning alone, or also trained on the outputs of the larger one."""


def known_compression(name: str) -> Compression:
    """The compression of that name.

    Raises:
        InputError: there is none.
    """
    if name not in get_args(Compression):
        raise InputError(ArgumentFault("compress", name, "expected prune or distill"))
    return cast("Compression", name)


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """A pruned network: the fraction of the original's parameters to remove, and what was really removed."""

    model: str
    pruning: float
    removed: float
    original_parameters: int
    parameters: int
    compress: str


@dataclass(frozen=True, kw_only=True)
class PruneRequest:
    """How a network is to be made smaller.

    Raises:
        InputError: an argument is out of its range.
    """

    ratio: float
    compress: Compression = "prune"
    data: str = "digits"
    model: str | None = None
    input_shape: tuple[int, ...] | None = None
    seed: int = 0
    trust_code: bool = False

    def __post_init__(self) -> None:
        known_compression(self.compress)
        if not 0 <= self.ratio < 1:
            raise InputError(ArgumentFault("ratio", self.ratio, "expected a fraction from 0 to below 1"))
        if self.seed < 0:
            raise InputError(ArgumentFault("seed", self.seed, "expected 0 or more"))


def prune_to_file(source: str, request: PruneRequest, path: Path) -> PruneResult:
    """Make a network smaller, given by name or by a file of weights, and write it.

    Raises:
        InputError: there is no such network or file, or it cannot be pruned that far.
        RunError: the file cannot be written.
    """
    values, about = read_weights(source) if is_file(source) else ({}, {})
    whole = load_network(_name(source, about, request), request.input_shape, seed=request.seed)
    origin, removed = network_origin(whole), pruning_of(about, source)
    _refuse_ratio(request.ratio, removed, origin)
    network = shrunk(whole, removed, origin)
    if values:
        load(network, values, source)
    smaller, pruned = prune_network(network, request.ratio, origin=origin)
    if request.compress == "distill":
        refuse_all_frozen(smaller.name, smaller.layers)
        data = load_data(request.data, network.input_shape)
        distill(smaller, network, data.train, np.arange(len(data.train)), Distillation(seed=request.seed))
    save_network(smaller, request.ratio, path)
    if model_code(smaller.name):
        remember(path)  # the network was typed, or trusted
    return PruneResult(
        model=network.name,
        pruning=request.ratio,
        removed=pruned.removed,
        original_parameters=origin.parameters,
        parameters=sum(weight.numel() for weight in parameters(smaller.layers).values()),
        compress=request.compress,
    )


def is_file(source: str) -> bool:
    """Whether this is a file of weights, not a network's name."""
    return source.endswith(".safetensors") or Path(source).is_file()


def _name(source: str, about: Mapping[str, str], request: PruneRequest) -> str:
    """The network's name: the one given, or what a file says that its weights are of, if its code may be called."""
    if request.model or not is_file(source):
        return request.model or source
    name = about.get("model")
    if name is None:
        expected = "the file does not say which network they are of; expected model with it, such as lenet5"
        raise InputError(Fault("weights", source, expected))
    refuse_untrusted({source: model_code(name)}, trust=request.trust_code)
    return name


def _refuse_ratio(ratio: float, removed: float, origin: PruningOrigin) -> None:
    if ratio < removed:
        expected = f"the file has {removed:g} removed, which cannot be restored; expected at least that"
        raise InputError(ArgumentFault("ratio", ratio, expected))
    try:
        origin.cuts(ratio)
    except InputError as error:
        raise InputError(ArgumentFault("ratio", ratio, fault.expected) for fault in error.faults) from None
