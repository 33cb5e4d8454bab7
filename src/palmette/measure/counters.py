"""The counters of equation (1) that this machine has.

A co-processor is a second kind of CPU cores beside the first, as the Denver cores of a Jetson TX2 or the small cores of
a phone, or, where there is none, an accelerator for neural networks whose clock the kernel scales.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from palmette.spec.power import COUNTERS

_DEVFREQ = Path("/sys/class/devfreq")
_CPUS = Path("/sys/devices/system/cpu")
# Files of a core that tell its kind: that of ARM's registers, and its capacity relative to the largest.
_KIND_FILES = ("regs/identification/midr_el1", "cpu_capacity")
# Kernel names of the devices whose clocks equation (1) uses.
_GPU_NAMES = ("gpu", "gp10b", "gm20b", "gv11b", "ga10b", "mali")
_ACCELERATOR_NAMES = ("npu", "nvdla", "dla", "vip", "tpu")
_MEMORY_NAMES = ("emc", "dmc", "memory-controller")


def read_counters() -> dict[str, float]:
    """The counters' values now; utilisation is that since the last call."""
    found: dict[str, float] = {}
    for read in (_cpu, _memory, _clocks, _second_cores, _nvidia):
        found |= read()
    return found


def absent_counters(known: Collection[str]) -> list[str]:
    """The counters of equation (1) that are not among those known."""
    return [name for name in COUNTERS if name not in known]


def _cpu() -> dict[str, float]:
    found = {"u_cpu": psutil.cpu_percent() / 100}
    with suppress(OSError, NotImplementedError):
        clock = psutil.cpu_freq()
        if clock is not None and clock.current:
            found["f_cpu"] = clock.current * 1e6
    return found


def _memory() -> dict[str, float]:
    return {"u_mem": psutil.virtual_memory().percent / 100, "m_swap": float(psutil.swap_memory().used)}


def _second_cores() -> dict[str, float]:
    """Clock, utilisation and number of the cores that are online and of another kind than the first core."""
    kinds = {core: kind for core in _online_cores() if (kind := _core_kind(core)) is not None}
    second = [core for core, kind in kinds.items() if kind != next(iter(kinds.values()))]
    if not second:
        return {}
    busy = psutil.cpu_percent(percpu=True)
    found = {"u_cp": sum(busy[core] for core in second) / len(second) / 100, "c_cp": float(len(second))}
    with suppress(OSError, ValueError):
        clocks = [float((_CPUS / f"cpu{core}/cpufreq/scaling_cur_freq").read_text("ascii")) for core in second]
        found["f_cp"] = sum(clocks) / len(clocks) * 1e3  # the kernel counts kHz
    return found


def _online_cores() -> list[int]:
    cores = sorted(int(each.name[3:]) for each in _CPUS.glob("cpu[0-9]*"))
    return [core for core in cores if _text(_CPUS / f"cpu{core}/online") in (None, "1")]


def _core_kind(core: int) -> str | None:
    known = (_text(_CPUS / f"cpu{core}" / file) for file in _KIND_FILES)
    return next((kind for kind in known if kind), None)


def _text(file: Path) -> str | None:
    """A file's text, None where there is no such file."""
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _accelerator(device: Path) -> dict[str, float]:
    """Clock, and utilisation where the driver tells it as ``percent@Hz``, of an accelerator."""
    found = {"c_cp": 1.0}
    with suppress(OSError, ValueError):
        found["f_cp"] = float((device / "cur_freq").read_text(encoding="ascii"))
        found["u_cp"] = float((device / "load").read_text(encoding="ascii").split("@")[0]) / 100
    return found


def _clocks() -> dict[str, float]:
    """Clocks of GPU and memory controller where the kernel scales them, as on a Jetson, and an accelerator's."""
    found: dict[str, float] = {}
    for device in sorted(_DEVFREQ.glob("*")):
        if any(name in device.name for name in _ACCELERATOR_NAMES):
            found |= _accelerator(device)
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
