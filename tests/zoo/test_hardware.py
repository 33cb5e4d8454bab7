"""The catalogue is complete and plausible; the roofline's formulas are what they say."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest

from palmette.errors import InputError
from palmette.zoo import hardware as catalogue
from palmette.zoo.hardware import Hardware, hardware, names

ASKED_FOR = {
    "raspberry-pi-3",
    "raspberry-pi-4",
    "jetson-tx1",
    "jetson-tx2",
    "nuc-i3-7100u-1",
    "nuc-i3-7100u-2",
    "nuc-i3-7100u-3",
    "nuc-i3-7100u-4",
    "i7-2600-gtx-1050",
    "xeon-gtx-1080-ti",
    "a100",
    "rtx-a4000",
    "videocore-vi",
    "galaxy-s25",
}

# 1 GFLOP/s, 1 GB/s and 1 ms make every expected time readable.
ROUND = Hardware(
    name="round",
    training_flops_per_s=1e9,
    memory_bandwidth_bytes_per_s=1e9,
    memory_bytes=1,
    idle_w=1.0,
    busy_w=2.0,
    call_s=1e-3,
)


def test_every_machine_of_the_papers_is_listed_once() -> None:
    assert set(names()) == ASKED_FOR
    assert len(names()) == len(ASKED_FOR)


@pytest.mark.parametrize("name", sorted(ASKED_FOR))
def test_every_entry_is_usable(name: str) -> None:
    entry = hardware(name)
    assert entry.name == name
    assert 1e9 < entry.training_flops_per_s < 1e14
    assert 1e9 < entry.memory_bandwidth_bytes_per_s < 1e13
    assert entry.memory_bytes >= 2**30
    assert 0 < entry.idle_w < entry.busy_w < 1000
    assert 0 < entry.call_s < 1e-3


def test_an_entry_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        hardware("a100").busy_w = 1.0  # type: ignore[misc]


def test_a_misspelt_name_gets_the_nearest_one() -> None:
    with pytest.raises(InputError) as error:
        hardware("rasberry-pi-3")
    assert str(error.value) == "hardware: rasberry-pi-3: no such hardware; did you mean raspberry-pi-3?"


def test_the_slower_of_computing_and_moving_counts() -> None:
    assert catalogue.forward_s(ROUND, flops=2e6, bytes_moved=1e6) == pytest.approx(2e-3)
    assert catalogue.forward_s(ROUND, flops=1e6, bytes_moved=3e6) == pytest.approx(3e-3)


def test_backward_takes_twice_the_forward() -> None:
    assert catalogue.backward_s(ROUND, flops=2e6, bytes_moved=1e6) == pytest.approx(4e-3)


def test_weights_are_read_once_a_call_and_not_once_a_sample() -> None:
    assert catalogue.forward_call_s(ROUND, parameter_bytes=0) == pytest.approx(1e-3)
    assert catalogue.forward_call_s(ROUND, parameter_bytes=5e6) == pytest.approx(6e-3)
    assert catalogue.backward_call_s(ROUND, parameter_bytes=5e6) == pytest.approx(12e-3)


def test_an_update_reads_weight_and_gradient_and_writes_the_weight() -> None:
    assert catalogue.update_s(ROUND, parameter_bytes=1e6) == pytest.approx(4e-3)
    assert catalogue.update_s(ROUND, parameter_bytes=0) == 0.0


def test_hiertrains_tiers_are_in_order_for_a_large_layer() -> None:
    tiers = ["raspberry-pi-3", "nuc-i3-7100u-1", "xeon-gtx-1080-ti"]
    device, edge, cloud = (catalogue.forward_s(hardware(tier), 1e9, 1e6) for tier in tiers)
    assert device > 3 * edge
    assert edge > 10 * cloud  # "one order of magnitude higher", section VI-B


def test_more_threads_help_as_in_figure_11_of_hiertrain() -> None:
    rates = [hardware(f"nuc-i3-7100u-{threads}").training_flops_per_s for threads in (1, 2, 3, 4)]
    gains = [after / before for before, after in pairwise(rates)]
    assert gains[0] > 1.8
    assert all(1.0 < gain < 1.1 for gain in gains[1:])


def test_the_catalogue_needs_neither_torch_nor_numpy() -> None:
    code = "import sys, palmette.zoo.hardware; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
