"""Zeus's meters: energy of CPU packages and DRAM (RAPL), of GPUs (NVML, AMD SMI), of Jetson and Apple chips."""

from __future__ import annotations

from typing import Any

from palmette.errors import ArgumentFault, InputError, RunError, one_line
from palmette.measure.meters.base import EnergyReading

_WINDOW = "palmette"
# The parts of the whole chip, where Zeus has no total of it.
_SOC_PARTS = ("cpu_total_mj", "gpu_mj", "gpu_sram_mj", "dram_mj", "ane_mj")


class ZeusMeter:
    """Everything on this machine that Zeus can read."""

    def __init__(self) -> None:
        self._monitor = _monitor()
        found = {
            "RAPL": self._monitor.cpu_indices,
            "GPUs": self._monitor.gpu_indices,
            "SoC": self._monitor.soc_is_present,
        }
        names = [name for name, there in found.items() if there]
        if not names:
            expected = "Zeus finds no RAPL, GPU, Jetson or Apple meter here; expected replay:FILE or catalogue:NAME"
            raise InputError(ArgumentFault("meter", "zeus", expected))
        self.source = f"measured: Zeus, {', '.join(names)}"

    def begin(self) -> None:
        """Open a window."""
        self._monitor.begin_window(_WINDOW)

    def end(self) -> EnergyReading:
        """Close it.

        Raises:
            RunError: the counters did not move.
        """
        found = self._monitor.end_window(_WINDOW)
        joules = total_j(found)
        if not (joules > 0 and found.time > 0):
            raise RunError(f"Zeus metered {joules:g} J in {found.time:.3g} s; a longer interval may help")
        return EnergyReading(float(found.time), joules, self.source)


def total_j(found: Any) -> float:
    """All joules of one of Zeus's measurements; the chip's own total where there is one."""
    parts = [*found.gpu_energy.values(), *(found.cpu_energy or {}).values(), *(found.dram_energy or {}).values()]
    soc = found.soc_energy
    if soc is not None:
        whole = getattr(soc, "total_energy_mj", None)
        some = [getattr(soc, name, None) or 0.0 for name in _SOC_PARTS]
        parts.append((sum(some) if whole is None else whole) / 1000)
    return float(sum(parts))


def _monitor() -> Any:
    try:
        from zeus.monitor import ZeusMonitor
    except ImportError:
        expected = "Zeus is not installed; expected pip install 'palmette[meters]', or another meter"
        raise InputError(ArgumentFault("meter", "zeus", expected)) from None
    try:
        return ZeusMonitor()
    except Exception as error:  # noqa: BLE001  (whatever a driver raises, the user needs another meter)
        raise InputError(ArgumentFault("meter", "zeus", f"cannot be used here: {one_line(str(error))}")) from None
