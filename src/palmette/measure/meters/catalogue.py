"""The power of a machine of the catalogue under this machine's load. Modelled, never called measured."""

from __future__ import annotations

from time import monotonic

import psutil

from palmette.measure.meters.base import EnergyReading
from palmette.zoo.hardware import Hardware


class CatalogueMeter:
    """Interpolates between idle and busy watts by the share of the CPUs in use."""

    def __init__(self, machine: Hardware) -> None:
        self._machine, self._began_s = machine, 0.0
        self.source = f"modelled: {machine.name} of the catalogue by CPU load"

    def begin(self) -> None:
        """Remember the time and the load so far."""
        self._began_s = monotonic()
        psutil.cpu_percent()

    def end(self) -> EnergyReading:
        """The model's watts times the seconds."""
        seconds, load = monotonic() - self._began_s, psutil.cpu_percent() / 100
        watts = self._machine.idle_w + load * (self._machine.busy_w - self._machine.idle_w)
        return EnergyReading(seconds, watts * seconds, self.source)
