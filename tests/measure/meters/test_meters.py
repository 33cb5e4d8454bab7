"""Meters: each says joules and where they come from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from palmette.errors import InputError, RunError
from palmette.measure import counters
from palmette.measure.counters import absent_counters, read_counters
from palmette.measure.meters.base import EnergyReading
from palmette.measure.meters.catalogue import CatalogueMeter
from palmette.measure.meters.registry import open_meter
from palmette.measure.meters.replay import ReplayMeter, load_replay
from palmette.measure.meters.zeus import total_j
from palmette.measure.power_sampling import sample_power
from palmette.spec.power import COUNTERS
from palmette.zoo.hardware import hardware


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_log_is_integrated_from_where_the_last_stretch_ended() -> None:
    clock = Clock()
    log = ReplayMeter([0, 10, 20], [10, 10, 30], "plug.csv", clock)
    log.begin()
    clock.sleep(5)
    assert log.end() == EnergyReading(5.0, 50.0, "measured: replayed from plug.csv")
    clock.sleep(100)  # nobody metered this
    log.begin()
    clock.sleep(10)
    assert log.end().joules == pytest.approx(50 + (10 + 20) / 2 * 5)
    log.begin()
    clock.sleep(6)
    with pytest.raises(RunError, match="the log ends after 20 s"):
        log.end()


@pytest.mark.parametrize(
    "text", ["time_s,power_w\n0,5\n10,15\n", "Timestamp,Power (W)\n2026-01-01T00:00:00,5\n2026-01-01T00:00:10,15\n"]
)
def test_logs_of_meters_and_smart_plugs(tmp_path: Path, text: str) -> None:
    file = tmp_path / "log.csv"
    file.write_text(text)
    found = load_replay(str(file))
    assert found._joules(10.0) == pytest.approx(100)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "header: nothing: expected a column time_s"),
        ("time_s,volts\n0,5\n", "header: time_s,volts: expected a column power_w"),
        ("time_s,power_w\n0,5\n", "1 samples: expected at least 2"),
        ("time_s,power_w\n0,5\n0,6\n", "line 3: 0,6: expected watts of 0 or more, and times that rise"),
        ("time_s,power_w\n0,5\n1,-6\n", "line 3: 1,-6: expected watts"),
        ("time_s,power_w\n0,5\n1,inf\n", "line 3: inf: expected a number"),
        ("time_s,power_w\nsoon,5\n", "line 2: soon: expected a number"),
    ],
)
def test_logs_that_cannot_be_used(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "log.csv"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        open_meter(f"replay:{file}")
    assert str(caught.value).startswith(f"{file}: {expected}")


def test_the_catalogue_is_a_model_between_idle_and_busy() -> None:
    pi = hardware("raspberry-pi-4")
    found = CatalogueMeter(pi)
    found.begin()
    metered = found.end()
    assert metered.source.startswith("modelled: raspberry-pi-4")
    assert pi.idle_w * 0.99 <= metered.watts <= pi.busy_w * 1.01


@pytest.mark.parametrize("text", ["", "zeus:1", "replay", "catalogue:", "watts"])
def test_no_such_meter(text: str) -> None:
    with pytest.raises(InputError, match="expected one of zeus, replay:FILE, catalogue:NAME"):
        open_meter(text)


def test_a_name_that_is_almost_right_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"meter: catalog:pi: no such meter; did you mean catalogue\?"):
        open_meter("catalog:pi")


def test_no_such_machine() -> None:
    with pytest.raises(InputError, match=r"did you mean jetson-tx"):
        open_meter("catalogue:jetson-tx3")


class Monitor:
    """Stands for ZeusMonitor."""

    gpu_indices = (0,)
    cpu_indices = (0,)
    soc_is_present = False

    def begin_window(self, key: str) -> None:
        self.key = key

    def end_window(self, key: str) -> Any:
        assert key == self.key
        return SimpleNamespace(time=2.0, gpu_energy={0: 30.0}, cpu_energy={0: 8.0}, dram_energy=None, soc_energy=None)


def zeus(monkeypatch: pytest.MonkeyPatch, monitor: Any) -> None:
    monkeypatch.setitem(sys.modules, "zeus", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "zeus.monitor", SimpleNamespace(ZeusMonitor=monitor))


def test_zeus_adds_up_all_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    zeus(monkeypatch, Monitor)
    found = open_meter("zeus")
    found.begin()
    assert found.end() == EnergyReading(2.0, 38.0, "measured: Zeus, RAPL, GPUs")


def test_zeus_that_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    zeus(monkeypatch, type("Blind", (Monitor,), {"gpu_indices": (), "cpu_indices": ()}))
    with pytest.raises(InputError, match="Zeus finds no RAPL, GPU, Jetson or Apple meter here"):
        open_meter("zeus")


def test_zeus_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus.monitor", None)
    with pytest.raises(InputError, match=r"pip install 'palmette\[meters\]'"):
        open_meter("zeus")


@pytest.mark.parametrize(
    ("soc", "joules"),
    [
        (SimpleNamespace(cpu_energy_mj=500.0, gpu_energy_mj=1000.0, total_energy_mj=2500.0), 2.5),
        (SimpleNamespace(cpu_total_mj=500, gpu_mj=1000, dram_mj=None, ane_mj=0, gpu_sram_mj=100), 1.6),
    ],
)
def test_chips_have_a_total_or_parts(soc: Any, joules: float) -> None:
    found = SimpleNamespace(gpu_energy={}, cpu_energy=None, dram_energy=None, soc_energy=soc)
    assert total_j(found) == pytest.approx(joules)


def test_samples_have_counters_watts_and_the_meter() -> None:
    clock = Clock()
    log = ReplayMeter([0, 100], [10, 10], "plug.csv", clock)
    rows = sample_power(log, 3.0, 1.0, clock.sleep)
    assert len(rows) == 3
    assert all(row["power_w"] == pytest.approx(10) and row["meter"] == log.source for row in rows)
    assert rows[0].keys() - {"power_w", "meter"} <= COUNTERS.keys()


def test_counters_of_this_machine_have_known_names() -> None:
    found = read_counters()
    assert found.keys() <= COUNTERS.keys()
    assert {"u_cpu", "u_mem", "m_swap"} <= found.keys()
    assert 0 <= found["u_cpu"] <= 1
    assert set(absent_counters(found)) == COUNTERS.keys() - found.keys()


class TestCoProcessor:
    @pytest.fixture(autouse=True)
    def system(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A machine whose kernel shows nothing yet; its first two cores are busy by a half, the others idle."""
        monkeypatch.setattr(counters, "_CPUS", tmp_path / "cpu")
        monkeypatch.setattr(counters, "_DEVFREQ", tmp_path / "devfreq")

        def percent(percpu: bool = False) -> object:
            return [50.0, 50.0, 0.0, 20.0] if percpu else 30.0

        monkeypatch.setattr(counters.psutil, "cpu_percent", percent)
        return tmp_path

    def core(self, system: Path, number: int, **files: str) -> None:
        for name, text in files.items():
            file = system / "cpu" / f"cpu{number}" / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")

    def test_none_is_named_as_absent(self, system: Path) -> None:
        for number in range(2):
            self.core(system, number, cpu_capacity="1024")
        assert {"f_cp", "u_cp", "c_cp"} <= set(absent_counters(read_counters()))

    def test_cores_of_a_second_kind_that_are_online(self, system: Path) -> None:
        for number, capacity in enumerate(("1024", "1024", "400", "400")):
            self.core(system, number, cpu_capacity=capacity, cpufreq__scaling_cur_freq="1200000")
        self.core(system, 2, online="0")
        found = read_counters()
        assert (found["c_cp"], found["u_cp"], found["f_cp"]) == (1.0, pytest.approx(0.2), pytest.approx(1.2e9))

    def test_an_accelerator(self, system: Path) -> None:
        folder = system / "devfreq" / "fdab0000.npu"
        folder.mkdir(parents=True)
        (folder / "cur_freq").write_text("1000000000\n")
        assert "u_cp" not in read_counters()
        (folder / "load").write_text("35@1000000000Hz\n")
        found = read_counters()
        assert (found["c_cp"], found["u_cp"], found["f_cp"]) == (1.0, pytest.approx(0.35), 1e9)
