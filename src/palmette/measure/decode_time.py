"""Seconds to turn stored samples into inputs: measured on this machine, as layers are, and predicted for others.

Real samples of the data set are decoded in batches of several sizes, with seeds as in training; a line through the
medians gives the fixed part of a call and the seconds per sample.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palmette.measure.call_time_fit import CallTime, fit_call_time
from palmette.measure.clocks import Clock, choose_clock
from palmette.measure.contexts import stable_timing
from palmette.measure.pass_timer import PassTimes
from palmette.measure.repetitions import SMALLEST, repeat_passes
from palmette.spec.profile import Times
from palmette.zoo.capture import as_bundle
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.data import DataSplit
from palmette.zoo.hardware import Hardware

# So many samples, spread evenly over the data, are decoded in turn: their sizes may differ.
SAMPLES = 128
# The inputs of a batch may take this much.
INPUTS_BYTES = 2**28
# A layer call on the 2.8 GHz server core by which the catalogue's ``call_s`` were derived.
REFERENCE_CALL_S = 27e-6


class DecodeTimer:
    """Times the decoding of samples of a split, into inputs of ``dtype``."""

    def __init__(self, split: DataSplit, dtype: torch.dtype, clock: Clock = perf_counter) -> None:
        chosen = np.linspace(0, len(split) - 1, min(len(split), SAMPLES)).round().astype(int)
        self.stored, self.decoder = split.stored(chosen), split.decoder
        self.dtype, self.clock = dtype, clock
        self._next = 0

    def run(self, samples: int) -> PassTimes:
        """The seconds of decoding the next samples.

        Raises:
            InputError: one cannot be decoded.
        """
        places = range(self._next, self._next + samples)
        self._next += samples
        batch = [self.stored[place % len(self.stored)] for place in places]
        start_s = self.clock()
        _cast(self.decoder.decode(batch, places), self.dtype)
        return np.array([[self.clock() - start_s]])


def measure_decode_time(split: DataSplit, dtype: torch.dtype) -> CallTime:
    """The time of decoding on this machine, with one torch thread; ``dtype`` is that of the network's inputs.

    Raises:
        InputError: a sample cannot be fetched or decoded.
    """
    timer = DecodeTimer(split, dtype)
    inputs_bytes = sum(each.nbytes for each in _cast(split.decoder.decode(timer.stored[:1]), dtype))
    with stable_timing():
        timer.run(SMALLEST)  # the very first is cold
        timer.clock = choose_clock(lambda: timer.run(SMALLEST))
        passes = repeat_passes(timer.run, INPUTS_BYTES // max(1, inputs_bytes), lambda _: None)
    return fit_call_time(list(passes), [float(np.median(np.stack(each))) for each in passes.values()])


def _cast(inputs: Any, dtype: torch.dtype) -> Bundle:
    """Inputs as a network takes them: one tensor in its dtype, several as they are."""
    return (inputs.to(dtype),) if isinstance(inputs, Tensor) else as_bundle(inputs)


def predict_decode_time(machine: Hardware, here: CallTime) -> CallTime:
    """The time of decoding on hardware of the catalogue, from that on this machine.

    Decoding may be a user's code, of which neither FLOPs nor bytes moved are known, and runs on one thread of the host.
    So its time is scaled as the catalogue's fixed call times are, by the speed of a single thread; this machine is
    taken for the server core that they were derived from.
    """
    slower = machine.call_s / REFERENCE_CALL_S
    return CallTime(slower * here.call_s, slower * here.sample_s)


def with_decoding(times: Times, decoding: CallTime) -> Times:
    """The times of layers, with decoding added to the first layer's forward."""
    calls_s = times.forward_call_s or (0.0,) * len(times.forward_s)
    added = {
        "forward_s": (times.forward_s[0] + decoding.sample_s, *times.forward_s[1:]),
        "forward_call_s": (calls_s[0] + decoding.call_s, *calls_s[1:]),
        "decode_s": decoding.sample_s,
    }
    return times.model_copy(update=added)
