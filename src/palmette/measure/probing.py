"""Carries out on this machine what an engine asks to have measured, for a node that it is."""

from __future__ import annotations

import os
import threading
from typing import assert_never

from palmette.errors import RunError
from palmette.measure.bandwidth import fastest_round_trip_s
from palmette.measure.meters.base import Meter
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.engines.probes import (
    Echo,
    Echoed,
    LayerTimes,
    MeterTotal,
    ProbeRequest,
    ProbeResult,
    ReadMeter,
    TimeBuild,
    TimeLayers,
    TimeTransfer,
    TransferTime,
)
from palmette.runtime.transports.base import Endpoint

_NO_METER = MeterTotal(absent="no meter; its owner may name one: palmette worker --meter")


def carry_out(node: str, request: ProbeRequest, endpoint: Endpoint | None) -> ProbeResult:
    """The result of a request; the endpoint is for transfers.

    Raises:
        PalmetteError: it cannot be measured.
    """
    match request:
        case TimeLayers():
            return _layer_times(request)
        case TimeBuild():
            from palmette.measure.build_time import measure_build_time

            return measure_build_time(request.model, request.input_shape, request.samples)
        case TimeTransfer():
            assert endpoint is not None, "a transfer needs an endpoint"
            return TransferTime(fastest_round_trip_s(node, request, endpoint))
        case Echo():
            return Echoed(os.urandom(request.answer_bytes))
        case ReadMeter():
            return _NO_METER
        case _:
            assert_never(request)


def _layer_times(request: TimeLayers) -> LayerTimes:
    from palmette.measure.compute_settings import ComputeSettings
    from palmette.measure.profiling import measure_times_here

    settings = ComputeSettings(request.threads, request.device, request.precision)
    times = measure_times_here(request.model, request.input_shape, request.variants, request.freeze, settings)
    return LayerTimes(times)


class WorkerProbes:
    """Carries out requests on a worker's machine: with networks that its owner allows, and the meter it was given."""

    def __init__(self, allowed: AllowedNames, meter: Meter | None = None) -> None:
        self._allowed, self._meter = allowed, None if meter is None else _RunningMeter(meter)

    def __call__(self, node: str, request: ProbeRequest, endpoint: Endpoint | None) -> ProbeResult:
        """The result of a request.

        Raises:
            PalmetteError: it cannot be measured, or is not allowed.
        """
        if isinstance(request, TimeLayers | TimeBuild):
            self._allowed.refuse_code(request.model)
        if isinstance(request, ReadMeter) and self._meter is not None:
            return self._meter.total()
        return carry_out(node, request, endpoint)


class _RunningMeter:
    """A meter that has been running since it was opened."""

    def __init__(self, meter: Meter) -> None:
        self._meter, self._lock = meter, threading.Lock()
        self._found = MeterTotal(source=meter.source)
        meter.begin()

    def total(self) -> MeterTotal:
        """What it has metered so far."""
        with self._lock:
            try:
                found = self._meter.end()
            except RunError as error:
                return MeterTotal(absent=str(error))
            seconds, joules = self._found.seconds + found.seconds, self._found.joules + found.joules
            self._found = MeterTotal(seconds, joules, found.source)
            self._meter.begin()
            return self._found
