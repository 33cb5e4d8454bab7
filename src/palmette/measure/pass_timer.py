"""Times one training pass through all layers, layer by layer.

    forward    layer 1 ─▶ layer 2 ─▶ … ─▶ layer N    the clock is read between any two layers
    backward   layer 1 ◀─ layer 2 ◀─ … ◀─ layer N    a hook on each layer's input reads it
    update     each layer's weights, one after the other

Layers are timed inside a whole pass, not each by itself, since that is how an instance runs them: inputs and
gradients are the real ones, caches hold what the previous layers left there, and autograd starts once, not N times.
The hooks fire at the right moment because autograd works through later operations first: when the gradient of a
layer's input is complete, so are those of its weights.

The last layer's backward includes the start of autograd. The loss is not part of it. A pass whose backward computes
only the gradients of inputs tells how much of it that is (``order: zero-bubble`` computes the rest later).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from palmette.measure.clocks import Clock
from palmette.measure.compute_settings import ComputeSettings
from palmette.measure.contexts import name_failing_layer
from palmette.runtime.devices import synchronize
from palmette.zoo.capture import NetworkLayer, as_bundle
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.models import Network

PassTimes = NDArray[np.float64]
"""Seconds: three rows, forward, backward and update; one column per layer."""

FORWARD, BACKWARD, UPDATE = range(3)


class PassTimer:
    """Times passes through a network, with any number of samples; ``on_layer`` is called with each layer's name."""

    def __init__(
        self,
        network: Network,
        on_layer: Callable[[str], None],
        clock: Clock = perf_counter,
        settings: ComputeSettings = ComputeSettings(),  # noqa: B008  (frozen)
    ) -> None:
        self.network = network
        self.on_layer = on_layer
        self.clock = clock
        self.settings, self._device = settings, torch.device(settings.device)
        self._first: list[Tensor] = []
        self.weights = [[each for each in layer.module.parameters() if each.requires_grad] for layer in network.layers]

    def run(self, samples: int) -> PassTimes:
        """The seconds of one pass.

        Raises:
            InputError: a layer fails.
        """
        self._forget_gradients()
        marks: list[float | None] = [None] * len(self.network.layers)
        forward_s, output = self._forward(samples, marks)
        backward_s = self._backward(output, marks)
        return np.array([forward_s, backward_s, self._update()])

    def run_input(self, samples: int) -> list[float]:
        """The seconds of each layer's backward for the gradient of its input alone; none of the first that learn."""
        marks: list[float | None] = [None] * len(self.network.layers)
        _, outputs = self._forward(samples, marks)
        learning = [output for output in outputs if output.requires_grad]
        if not learning or not self._first:
            return [0.0] * len(marks)
        gradients = [torch.full_like(output, 1.0 / len(output)) for output in learning]
        start_s = self._now_s()
        torch.autograd.grad(learning, self._first, gradients, allow_unused=True)
        return durations(start_s, marks)

    def _now_s(self) -> float:
        """The clock, once the device has done what it was given."""
        synchronize(self._device)
        return self.clock()

    def _forget_gradients(self) -> None:
        """As a training loop does, so that backward has to allocate them."""
        for weights in self.weights:
            for weight in weights:
                weight.grad = None

    def _forward(self, samples: int, marks: list[float | None]) -> tuple[list[float], Bundle]:
        """Seconds of each layer, and the last one's output; ``marks`` receive the end of each backward later on."""
        bundle = tuple(each.to(self._device) for each in self.network.example_batch(samples))
        times_s, self._first = [], []
        with self.settings.autocast():
            for place, layer in enumerate(self.network.layers):
                self.on_layer(layer.name)
                if place:
                    bundle = self._mark(bundle, place, marks)
                time_s, bundle = self._timed(layer, bundle)
                times_s.append(time_s)
        return times_s, bundle

    def _mark(self, bundle: Bundle, place: int, marks: list[float | None]) -> Bundle:
        """Read the clock when the gradients of a layer's inputs are complete: that layer's backward is done.

        Where nothing before a layer learns there are none, and neither is there a backward of the layers before.
        """

        def read(_: Tensor) -> None:
            marks[place] = self._now_s()

        # What only passes through layers is renamed for each, so that its gradient is complete when the layer is done.
        passed = tuple(value.view_as(value) if value.requires_grad else value for value in bundle)
        learning = [value for value in passed if value.requires_grad]
        for value in learning:
            value.register_hook(read)  # type: ignore[no-untyped-call]
        self._first = self._first or learning
        return passed

    def _timed(self, layer: NetworkLayer, bundle: Bundle) -> tuple[float, Bundle]:
        with name_failing_layer(self.network, layer.name, len(bundle[0])):
            start_s = self._now_s()
            output = layer.module(*bundle)
            return self._now_s() - start_s, as_bundle(output)

    def _backward(self, outputs: Bundle, marks: list[float | None]) -> list[float]:
        learning = [output for output in outputs if output.requires_grad]
        if not learning:
            return [0.0] * len(marks)
        # As large as those of a mean over the batch: rounding to denormal numbers would be slow.
        gradients = [torch.full_like(output, 1.0 / len(output)) for output in learning]
        lowest = next((k for k, weights in enumerate(self.weights) if weights), 0)
        with name_failing_layer(self.network, self.network.layers[-1].name, len(learning[0])):
            start_s = self._now_s()
            torch.autograd.backward(learning, gradients)
            marks[lowest] = self._now_s()
        return durations(start_s, marks)

    def _update(self) -> list[float]:
        with torch.no_grad():
            return [self._step(weights) for weights in self.weights]

    def _step(self, weights: Sequence[Tensor]) -> float:
        """Seconds of a step of plain SGD; a learning rate of 0 takes as long and does not change the weights."""
        pairs = [(weight, weight.grad) for weight in weights if weight.grad is not None]
        if not pairs:
            return 0.0
        start_s = self._now_s()
        for weight, gradient in pairs:
            weight.add_(gradient, alpha=0.0)
        return self._now_s() - start_s


def durations(start_s: float, ends_s: Sequence[float | None]) -> list[float]:
    """Times between marks that were set from the last to the first; nothing for one that was never set."""
    times_s = []
    for end_s in reversed(ends_s):
        times_s.append(0.0 if end_s is None else max(0.0, end_s - start_s))
        start_s = start_s if end_s is None else end_s
    return times_s[::-1]
