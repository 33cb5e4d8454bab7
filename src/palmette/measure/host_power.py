"""The power of nodes by the meters of their machines: idle, and while they train."""

from __future__ import annotations

import time
from collections.abc import Callable

from palmette.errors import RunError
from palmette.measure.meters.base import EnergyReading, Meter
from palmette.runtime.engines.probes import BuildTime, MeterTotal, Prober, ReadMeter, TimeBuild
from palmette.spec.cluster import Power

IDLE_S = BUSY_S = 3.0
_SAMPLES = 32


class HostMeter:
    """The meter of a node's machine, read from here.

    Raises:
        RunError: it has none; says why.
    """

    def __init__(self, prober: Prober, node: str) -> None:
        self._prober, self._node = prober, node
        self._before = self._read()
        self.source = self._before.source

    def begin(self) -> None:
        """Begin an interval now."""
        self._before = self._read()

    def end(self) -> EnergyReading:
        """The joules since the beginning; since its worker began, if that is later.

        Raises:
            NodeLost: its worker is gone.
            RunError: it has no reading.
        """
        now, before = self._read(), self._before
        if now.seconds < before.seconds or now.joules < before.joules:
            before = MeterTotal()
        return EnergyReading(max(now.seconds - before.seconds, 1e-9), now.joules - before.joules, now.source)

    def _read(self) -> MeterTotal:
        found = self._prober.ask({self._node: ReadMeter()}, MeterTotal)[self._node]
        if found.absent is not None:
            raise RunError(f"node {self._node}: {found.absent}")
        return found


def host_meters(prober: Prober, tell: Callable[[str], None]) -> dict[str, HostMeter]:
    """The meters that nodes have; ``tell`` is called with what is absent."""
    found = {}
    for node in prober.nodes:
        try:
            found[node] = HostMeter(prober, node)
        except RunError as error:
            tell(f"power not measured: {error}")
    return found


def measure_power(
    prober: Prober, node: str, meter: Meter, model: str, input_shape: tuple[int, ...] | None
) -> tuple[Power, str]:
    """Watts of a node's machine that does nothing, and that trains a network; and where they come from.

    Raises:
        RunError: its meter has no reading.
    """
    meter.begin()
    time.sleep(IDLE_S)
    idle = meter.end()
    began_s = time.monotonic()
    meter.begin()
    while time.monotonic() - began_s < BUSY_S:
        prober.ask({node: TimeBuild(model=model, input_shape=input_shape, samples=_SAMPLES)}, BuildTime)
    busy = meter.end()
    return Power(idle_w=round(idle.watts, 3), busy_w=round(max(idle.watts, busy.watts), 3)), busy.source
