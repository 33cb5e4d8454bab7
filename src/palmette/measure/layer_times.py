"""Seconds of each layer on this machine: measured, then fitted."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from palmette.measure.call_time_fit import CallTime, fit_call_time, worst_error
from palmette.measure.clocks import Clock, choose_clock
from palmette.measure.compute_settings import ComputeSettings
from palmette.measure.contexts import Progress, stable_timing, training_mode
from palmette.measure.pass_timer import BACKWARD, FORWARD, UPDATE, PassTimer, PassTimes
from palmette.measure.repetitions import SMALLEST, repeat_passes
from palmette.spec.profile import Layer, Times
from palmette.zoo.models import Network

# The activations of a batch may take this much, so that measuring a large network does not need a large machine.
ACTIVATIONS_BYTES = 2**30
_HALVES_TIMED = 5
_ENOUGH_S = 2.0
_LEAST_S = 1e-9


def measure_layer_times(
    network: Network,
    sizes: Sequence[Layer],
    progress: Progress,
    settings: ComputeSettings = ComputeSettings(),  # noqa: B008  (frozen)
) -> Times:
    """The layers' times on this machine; ``sizes`` are those of ``layer_sizes``.

    Raises:
        InputError: a layer fails.
    """
    max_samples = int(ACTIVATIONS_BYTES / max(1.0, sum(layer.kept_bytes for layer in sizes)))
    done = 0.0

    def on_progress(share: float) -> None:
        nonlocal done
        done = share

    placed = settings.placed(network)
    with training_mode(placed), stable_timing(settings.threads):
        timer = PassTimer(placed, lambda layer: progress(layer, done), settings=settings)
        timer.run(SMALLEST)  # the very first is cold
        if settings.device == "cpu" and torch.get_num_threads() == 1:
            timer.clock = choose_clock(lambda: timer.run(SMALLEST))
        passes = repeat_passes(timer.run, max_samples, on_progress)
        times = with_input_half(fit_layer_times(passes), timer, sorted(passes)[len(passes) // 2])
        return with_machine(times, timer.clock, settings)


def fit_layer_times(passes: Mapping[int, Sequence[PassTimes]]) -> Times:
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
    extra = {
        "fit_error": worst_error([*forward, *backward], list(medians), totals_s),
        "passes": {str(samples): len(each) for samples, each in passes.items()},
    }
    return times.model_copy(update=extra)


def with_input_half(times: Times, timer: PassTimer, samples: int) -> Times:
    """The times, with the part of backward that the gradients of inputs take: a few passes of each kind in turns."""
    timer.run_input(samples)
    pairs, until_s = list[tuple[list[float], PassTimes]](), perf_counter() + _ENOUGH_S
    while not pairs or (len(pairs) < _HALVES_TIMED and perf_counter() < until_s):
        pairs.append((timer.run_input(samples), timer.run(samples)[BACKWARD]))
    inputs, wholes = (np.median(np.array(each), axis=0) for each in zip(*pairs, strict=True))
    parts = np.clip(inputs / np.maximum(wholes, _LEAST_S), 0.0, 1.0)
    backward_input_s = tuple(float(part) * each_s for part, each_s in zip(parts, times.backward_s, strict=True))
    return times.model_copy(update={"backward_input_s": backward_input_s})


def with_machine(times: Times, clock: Clock, settings: ComputeSettings) -> Times:
    """The times, with the machine and software that they were measured with."""
    measured_with = {
        "machine": processor_name() if settings.device == "cpu" else device_name(settings.device),
        "threads": torch.get_num_threads(),
        "device": settings.device,
        "clock": clock.__name__,
        "torch": str(torch.__version__),
    }
    return times.model_copy(update={"measured_with": measured_with})


def _lines(medians: Mapping[int, PassTimes], row: int) -> list[CallTime]:
    """The fitted lines of one row of the medians, one per layer."""
    return [
        fit_call_time(list(medians), column) for column in np.stack([each[row] for each in medians.values()]).T.tolist()
    ]


def device_name(device: str) -> str:
    """The name of a device that is no processor."""
    return torch.cuda.get_device_name() if device == "cuda" else f"{device} of {processor_name()}"


def processor_name() -> str:
    """The name of this machine's processor."""
    described = Path("/proc/cpuinfo")
    if described.is_file():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"
