"""The counters of equation (1) that this machine has."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

_DEVFREQ = Path("/sys/class/devfreq")
# Kernel names of the devices whose clocks equation (1) uses.
_GPU_NAMES = ("gpu", "gp10b", "gm20b", "gv11b", "ga10b", "mali")
_MEMORY_NAMES = ("emc", "dmc", "memory-controller")


def read_counters() -> dict[str, float]:
    """The counters' values now; utilisation is that since the last call."""
    found: dict[str, float] = {}
    for read in (_cpu, _memory, _clocks, _nvidia):
        found |= read()
    return found


def _cpu() -> dict[str, float]:
    found = {"u_cpu": psutil.cpu_percent() / 100, "c_cp": float(len(psutil.Process().cpu_affinity()))}
    with suppress(OSError, NotImplementedError):
        clock = psutil.cpu_freq()
        if clock is not None and clock.current:
            found["f_cpu"] = clock.current * 1e6
    return found


def _memory() -> dict[str, float]:
    return {"u_mem": psutil.virtual_memory().percent / 100, "m_swap": float(psutil.swap_memory().used)}


def _clocks() -> dict[str, float]:
    """Clocks of GPU and memory controller where the kernel scales them, as on a Jetson."""
    found: dict[str, float] = {}
    for device in sorted(_DEVFREQ.glob("*")):
        for counter, names in (("f_gpu", _GPU_NAMES), ("f_emc", _MEMORY_NAMES)):
            if any(name in device.name for name in names):
                with suppress(OSError, ValueError):
                    found[counter] = float((device / "cur_freq").read_text(encoding="ascii"))
    return found


def _nvidia() -> dict[str, float]:
    """Clock, utilisation and memory of the first NVIDIA card, if the extra ``meters`` installed its library."""
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(0)
        return {
            "f_gpu": pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM) * 1e6,
            "f_emc": pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_MEM) * 1e6,
            "u_gpu": pynvml.nvmlDeviceGetUtilizationRates(card).gpu / 100,
            "m_gpu": float(pynvml.nvmlDeviceGetMemoryInfo(card).used),
        }
    except pynvml.NVMLError:
        return {}
