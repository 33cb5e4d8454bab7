"""Seconds of each layer on this machine, one torch thread: measured, then fitted."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from palmette.measure.call_time_fit import Line, fit_line, worst_error
from palmette.measure.clocks import Clock, fitting_clock
from palmette.measure.contexts import Progress, in_training, steady
from palmette.measure.pass_timer import BACKWARD, FORWARD, UPDATE, Passes, Seconds
from palmette.measure.repetitions import SMALLEST, repeated
from palmette.spec.profile import Layer, Times
from palmette.zoo.models import Network

# What the activations of a batch may take, so that measuring a large network does not need a large machine.
ACTIVATIONS_BYTES = 2**30


def measured_times(network: Network, sizes: Sequence[Layer], progress: Progress) -> Times:
    """The layers' times as this machine trains them; ``sizes`` are what ``layer_sizes`` says of them.

    Raises:
        InputError: a layer fails.
    """
    most = int(ACTIVATIONS_BYTES / max(1.0, sum(layer.kept_bytes for layer in sizes)))
    gone = 0.0

    def spent(share: float) -> None:
        nonlocal gone
        gone = share

    with in_training(network), steady():
        passes = Passes(network, lambda layer: progress(layer, gone))
        passes.run(SMALLEST)  # the very first finds nothing prepared
        passes.clock = fitting_clock(lambda: passes.run(SMALLEST))
        times = fitted(repeated(passes.run, most, spent))
    return with_origin(times, passes.clock)


def fitted(passes: Mapping[int, Sequence[Seconds]]) -> Times:
    """Times of the layers from passes by their number of samples: medians, and a line through them."""
    medians = {samples: np.median(np.stack(list(each)), axis=0) for samples, each in passes.items()}
    forward, backward = (_lines(medians, row) for row in (FORWARD, BACKWARD))
    updates = np.median(np.stack([each[UPDATE] for each in medians.values()]), axis=0)
    totals_s = [float(each[[FORWARD, BACKWARD]].sum()) for each in medians.values()]
    times = Times(
        forward_s=tuple(line.sample_s for line in forward),
        backward_s=tuple(line.sample_s for line in backward),
        update_s=tuple(map(float, updates)),
        forward_call_s=tuple(line.call_s for line in forward),
        backward_call_s=tuple(line.call_s for line in backward),
        source="measured",
    )
    told = {
        "fit_error": worst_error([*forward, *backward], list(medians), totals_s),
        "passes": {str(samples): len(each) for samples, each in passes.items()},
    }
    return times.model_copy(update=told)


def with_origin(times: Times, clock: Clock) -> Times:
    """The times, with what they were measured with."""
    told = {"machine": machine(), "threads": 1, "clock": clock.__name__, "torch": str(torch.__version__)}
    return times.model_copy(update={"measured_with": told})


def _lines(medians: Mapping[int, Seconds], row: int) -> list[Line]:
    """One row of the medians, a line for each layer."""
    return [fit_line(list(medians), column) for column in np.stack([each[row] for each in medians.values()]).T.tolist()]


def machine() -> str:
    """This machine's processor, as it calls itself."""
    described = Path("/proc/cpuinfo")
    if described.is_file():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"
