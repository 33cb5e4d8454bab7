"""Weights in a file: those of a network, whole or smaller, and what it takes to load them again.

The shapes of a smaller network follow from the fraction of its parameters that was removed (``compress.channels``), so
the file's metadata says that, and whose weights they are: ``{"model": "lenet5", "pruning": "0.5"}``.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from palmette.compress.channels import PruningOrigin
from palmette.compress.networks import network_origin, prune_network
from palmette.control.adapters import with_adapter_names
from palmette.errors import ArgumentFault, Fault, InputError, RunError, one_line
from palmette.runtime.tensor_file import write_tensors
from palmette.runtime.training.base_weights import base_weights
from palmette.runtime.training.checkpoint import best
from palmette.runtime.worker.setup import unshared
from palmette.spec.durable import write_file
from palmette.zoo.capture import load_state, state
from palmette.zoo.models import Network


def save_network(network: Network, pruning: float, path: Path) -> None:
    """Write the weights of a network of which this fraction of the parameters was removed.

    Raises:
        RunError: it cannot be written.
    """
    _save(unshared(state(network.layers)), network.name, pruning, path)


def save_best(network: Network, folder: Path) -> None:
    """Write the best weights of a run beside the last, if it was evaluated; those of an earlier run are removed.

    Raises:
        InputError: the checkpoint that has them cannot be read.
        RunError: they cannot be written.
    """
    path, found = folder / "best.safetensors", best(folder / "checkpoints")
    if found is None:
        path.unlink(missing_ok=True)
    else:
        base = base_weights(network.layers) if found.progress.base else {}
        _save(unshared(base) | dict(found.weights), network.name, found.progress.pruning, path)


def _save(weights: dict[str, Tensor], model: str, pruning: float, path: Path) -> None:
    try:
        about = {"model": model, "pruning": f"{pruning!r}"}
        write_file(path, lambda draft: write_tensors(weights, draft, about))
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path}: cannot be written: {one_line(str(error))}") from None


def read_weights(file: str, argument: str | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The weights in a file that an argument names, and its metadata: safetensors, or a ``state_dict`` of torch.save.

    Raises:
        InputError: it cannot be read.
    """
    try:
        if zipfile.is_zipfile(file):
            return _read_state_dict(file), {}
        with safe_open(file, "pt") as opened:
            about = opened.metadata() or {}
        return load_file(file), about
    except (OSError, SafetensorError, pickle.UnpicklingError, RuntimeError, ValueError) as error:
        expected = f"cannot be read: {one_line(str(error))}"
        fault = Fault("weights", file, expected) if argument is None else ArgumentFault(argument, file, expected)
        raise InputError(fault) from None


def _read_state_dict(file: str) -> dict[str, Tensor]:
    """What ``torch.save(module.state_dict(), file)`` has written; nothing in the file is executed."""
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ValueError("it holds more than tensors; expected torch.save(module.state_dict(), FILE)") from None
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise ValueError("it is no state_dict; expected torch.save(module.state_dict(), FILE)")
    return dict(found)


def pruning_of(about: Mapping[str, str], file: str) -> float:
    """The fraction that a file's metadata says was removed, 0 where it says nothing.

    Raises:
        InputError: it says something else than a fraction.
    """
    text = about.get("pruning", "0")
    try:
        fraction = float(text)
    except ValueError:
        fraction = -1.0
    if not 0 <= fraction < 1:
        raise InputError(Fault("pruning", text, "expected a fraction from 0 to below 1", file))
    return fraction


def shrunk(network: Network, pruning: float, origin: PruningOrigin | None) -> Network:
    """The network with a fraction of its parameters removed; itself where that is 0."""
    return prune_network(network, pruning, origin=origin)[0] if pruning else network


def with_initial_weights(network: Network, file: str, pruning: float, origin: PruningOrigin | None) -> Network:
    """The network with the weights of a file, made smaller if the run begins with a smaller one.

    Raises:
        InputError: the file cannot be read, is of another network, or of a smaller one than the run begins with.
    """
    values, about = read_weights(file, "init")
    removed = pruning_of(about, file)
    if removed > pruning:
        expected = f"the plan begins with {pruning:g}, and what is removed cannot be restored"
        raise InputError(Fault("pruning", removed, expected, file))
    if removed and origin is None:
        origin = network_origin(network)
    network = shrunk(network, removed, origin)
    load(network, with_adapter_names(values, network), file)
    return prune_network(network, pruning, origin=origin)[0] if pruning > removed else network


def load(network: Network, weights: Mapping[str, Tensor], file: str) -> None:
    """Put weights of a file into a network; of a weight that has several names the file may have one.

    Raises:
        InputError: some are missing or have other shapes.
    """
    own = state(network.layers)
    known = {own[name].data_ptr(): value for name, value in weights.items() if name in own}
    weights = {name: known[each.data_ptr()] for name, each in own.items() if each.data_ptr() in known} | dict(weights)
    wrong = [
        Fault(
            name,
            "missing" if name not in weights else tuple(weights[name].shape),
            f"expected {tuple(own[name].shape)}",
            file,
        )
        for name in own
        if name not in weights or weights[name].shape != own[name].shape
    ]
    if wrong:
        raise InputError(wrong[:5])
    load_state(network.layers, weights)
