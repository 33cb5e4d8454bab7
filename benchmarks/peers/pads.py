"""Layers of a peer that take as long as on the node they stand for, with the overlap that autograd leaves to a peer.

Forward: after each layer, wait until all layers so far would be done. Backward: a hook on a layer's output comes just
before that layer's backward, and waits so long that the layer is done when it would be on its node; the gradients of
its weights are there then and not earlier, and whoever overlaps their exchange with backward (DDP) can do so.

    layer 3 backward        layer 2 backward        layer 1 backward
    ├─ wait ─┤ compute ├────── wait ─┤ compute ├────── wait ─┤ compute ├
                       due                     due                     due
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from torch import Tensor, nn

from palmette.measure.pass_timer import BACKWARD, PassTimer
from palmette.runtime.worker.cpu_queue import sleep_until
from palmette.runtime.worker.dropout import Draw, Drawing
from palmette.spec.profile import Times
from palmette.zoo.models import Network

REHEARSALS = 3


@dataclass(frozen=True)
class Seconds:
    """How long the layers of a stage last on their node, stretched by the dilation."""

    times: Times
    dilation: float
    first: int
    last: int

    def forward_s(self, samples: int) -> list[float]:
        """Seconds of each layer's forward."""
        return self._calls(self.times.forward_s, self.times.forward_call_s, samples)

    def backward_s(self, samples: int) -> list[float]:
        """Seconds of each layer's backward."""
        return self._calls(self.times.backward_s, self.times.backward_call_s, samples)

    def update_s(self) -> float:
        """Seconds of the update of all layers."""
        return self.dilation * sum(self.times.update_s[self.first - 1 : self.last])

    def _calls(self, a_sample: Sequence[float], a_call: Sequence[float] | None, samples: int) -> list[float]:
        fixed = a_call or [0.0] * len(a_sample)
        numbers = range(self.first - 1, self.last)
        return [self.dilation * (fixed[k] + samples * a_sample[k]) for k in numbers]


class PaddedLayers(nn.Module):
    """A run of layers; ``real_s`` gives the seconds that each layer's backward takes on this machine, by samples.

    ``draw`` says which samples the next forward is about, for the masks of dropout.
    """

    def __init__(self, layers: Sequence[nn.Module], seconds: Seconds, real_s: Callable[[int], Sequence[float]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self._seconds, self._real_s = seconds, real_s
        self.draw: Callable[[], Draw]

    def forward(self, values: Tensor) -> Tensor:
        """The layers one after the other, each padded."""
        began = time.monotonic()
        samples = len(values)
        backward = _Backward(self._seconds.backward_s(samples), self._real_s(samples))
        if values.requires_grad:  # not on the very tensor: it may be a buffer that is used again
            values = values.view_as(values)
            values.register_hook(backward.ended)
        with Drawing(self.draw()):
            for k, due_s in enumerate(accumulate(self._seconds.forward_s(samples))):
                values = self.layers[k](values)
                sleep_until(began + due_s)
                values.register_hook(backward.hook(k))
        return values


class _Backward:
    """One backward pass through the layers of a stage: when each has to begin and end."""

    def __init__(self, due_s: Sequence[float], real_s: Sequence[float]) -> None:
        self._ends_s = list(accumulate(reversed(due_s)))[::-1]
        self._waits_s = [end - min(real, due) for end, real, due in zip(self._ends_s, real_s, due_s, strict=True)]
        self._began: float | None = None

    def hook(self, k: int) -> Callable[[Tensor], None]:
        """What to do before the backward of layer ``k``."""

        def wait(_: Tensor) -> None:
            if self._began is None:
                self._began = time.monotonic()
            sleep_until(self._began + self._waits_s[k])

        return wait

    def ended(self, _: Tensor) -> None:
        """The gradient of the stage's input is there: the pass is over."""
        assert self._began is not None, "a layer's own hook comes first"
        sleep_until(self._began + self._ends_s[0])


def calibrated(network: Network, samples: int) -> list[float]:
    """Seconds of each layer's backward on this machine, the best of a few."""
    passes = PassTimer(network, lambda _: None)
    best = np.min(np.stack([passes.run(samples) for _ in range(REHEARSALS)]), axis=0)
    for weights in passes.weights:
        for weight in weights:
            weight.grad = None
    return [float(second) for second in best[BACKWARD]]
