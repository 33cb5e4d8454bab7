"""Seconds to compress and to extract messages: measured on this machine, and predicted for others.

They grow with the numbers of a weight, and hardly depend on what these are; so one matrix of random numbers is coded a
few times with each codec. A codec that keeps outputs codes the deltas of samples that it has had.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch

from palmette.compress.codec import CODERS, exchange_coder
from palmette.compress.coders.base import Coder, Memory
from palmette.compress.delta_coding import DeltaCoding
from palmette.measure.contexts import stable_timing
from palmette.measure.decode_time import REFERENCE_CALL_S
from palmette.spec.codec import CODEC_KINDS, Codec
from palmette.spec.exchange import EXCHANGE_KINDS, Exchange
from palmette.spec.profile import CodingSeconds, Times
from palmette.zoo.hardware import Hardware

# On the 2.8 GHz server core by which the catalogue's ``call_s`` were derived.
REFERENCE_S: CodingSeconds = {
    "int8": (8.6e-10, 4.5e-10),
    "int4": (1.7e-9, 9.1e-10),
    "int4-delta": (5.5e-9, 2.2e-9),
    "bf16": (1.3e-10, 1.7e-10),
    "topk": (8.3e-9, 2e-10),
    "lowrank": (6e-9, 1.4e-9),
}
ROWS = 512
REPETITIONS = 5


def measure_coding_time() -> CodingSeconds:
    """Seconds per number for compressing and extracting on this machine, by codec; those that leave numbers as they are
    are left out.
    """
    with stable_timing():
        coders: dict[str, Coder] = {codec: _coder(codec) for codec, kind in CODEC_KINDS.items() if kind.lossy}
        lossy = [codec for codec, kind in EXCHANGE_KINDS.items() if kind.lossy]
        coders |= {codec: exchange_coder(Exchange(codec=codec)) for codec in lossy}
        return {codec: _measured(coder) for codec, coder in coders.items()}


def _coder(codec: Codec) -> Coder:
    """The coder of outputs; where it keeps them, that of samples that it has had."""
    if not CODEC_KINDS[codec].keeps:
        return CODERS[codec]
    coding = DeltaCoding(codec, ROWS)
    coding.of(range(ROWS)).compress(torch.zeros(ROWS, ROWS), {})
    return coding.of(range(ROWS))


def _measured(coder: Coder) -> tuple[float, float]:
    memory = Memory()
    values = torch.randn(ROWS, ROWS, generator=torch.Generator().manual_seed(0))
    message = coder.compress(values, memory)  # the very first is cold
    compress_s = _median_s(lambda: coder.compress(values, memory))
    extract_s = _median_s(lambda: coder.extract(message, (ROWS, ROWS), values.dtype))
    return compress_s / values.numel(), extract_s / values.numel()


def _median_s(work: Callable[[], object]) -> float:
    taken_s = []
    for _ in range(REPETITIONS):
        began_s = perf_counter()
        work()
        taken_s.append(perf_counter() - began_s)
    return median(taken_s)


def predict_coding_time(machine: Hardware) -> CodingSeconds:
    """The same on hardware of the catalogue: scaled by the speed of a single thread, as decoding is."""
    slower = machine.call_s / REFERENCE_CALL_S
    return {codec: (slower * compress_s, slower * extract_s) for codec, (compress_s, extract_s) in REFERENCE_S.items()}


def with_coding(times: Times, coding: CodingSeconds) -> Times:
    """The times of a node, with those of its codecs."""
    return times.model_copy(update={"coding_s": coding})
