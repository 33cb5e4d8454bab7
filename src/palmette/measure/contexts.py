"""Context managers to probe layers in; they restore everything afterwards, also after an error or Ctrl-C."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from palmette.errors import Fault, InputError
from palmette.runtime.worker.tuning import keep_freed_memory, use_threads
from palmette.zoo.capture.trial_runs import preserve_state
from palmette.zoo.capture.wrapper import describe_error
from palmette.zoo.models import Network

Progress = Callable[[str, float], None]
"""Called with the current layer, and the share of the work that is done, from 0 to 1."""


def no_progress(layer: str, done: float) -> None:
    """Ignore progress."""


@contextmanager
def training_mode(network: Network) -> Iterator[None]:
    """Put the network in training mode; restores its modes, buffers and gradients, and torch's random state."""
    whole = nn.ModuleList([layer.module for layer in network.layers])
    gradients = [(weight, weight.grad) for weight in whole.parameters()]
    with preserve_state(whole), torch.enable_grad():
        try:
            whole.train()
            yield
        finally:
            for weight, gradient in gradients:
                weight.grad = gradient


@contextmanager
def stable_timing(threads: int | None = 1) -> Iterator[None]:
    """A node's threads, and memory that is kept as there, and no garbage collection in the middle of a layer."""
    keep_freed_memory()
    with ExitStack() as after:
        after.callback(torch.set_num_threads, torch.get_num_threads())
        if gc.isenabled():
            after.callback(gc.enable)
        use_threads(threads)
        gc.collect()
        gc.disable()
        yield


@contextmanager
def name_failing_layer(network: Network, layer: str, samples: int) -> Iterator[None]:
    """Turn whatever a layer raises into an error that names the layer."""
    try:
        yield
    except Exception as error:
        expected = f"its layer {layer} fails on {samples} samples in training: {describe_error(error)}"
        raise InputError(Fault("model", network.name, expected)) from error
