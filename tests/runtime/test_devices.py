"""Devices: what this machine has, what it has not, and that clocks wait for them. No test here has a GPU."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from palmette.errors import RunError
from palmette.measure import pass_timer
from palmette.measure.compute_settings import ComputeSettings
from palmette.measure.contexts import training_mode
from palmette.measure.pass_timer import PassTimer
from palmette.runtime.devices import DEVICES, HOST, is_usable, synchronize, to_device, to_host, usable_device
from palmette.zoo.models import load_network

META = torch.device("meta")
TINY = "tests.runtime.networks:tiny"


def test_the_cpu_is_always_there() -> None:
    assert DEVICES == ("cpu", "cuda", "mps")
    assert usable_device("cpu") == HOST
    values = torch.rand(3)
    assert to_device(values, HOST) is values
    assert to_host(values) is values
    synchronize(HOST)


@pytest.mark.parametrize("name", ["cuda", "mps"])
def test_a_device_that_is_missing_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palmette.runtime.devices.is_usable", lambda _: False)
    with pytest.raises(RunError, match=f"device: {name}: this machine has no usable GPU; expected device: cpu"):
        usable_device(name)


def test_whether_there_is_a_gpu_is_torchs_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert is_usable("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not is_usable("cuda")


def test_copies_to_and_from_a_gpu_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    card, given = torch.device("cuda"), MagicMock(device=HOST)
    to_device(given, card)
    given.pin_memory.return_value.to.assert_called_once_with(card, non_blocking=True)
    waited, made = list[Any](), dict[str, Any]()

    def empty(*_: Any, **options: Any) -> MagicMock:
        made.update(options)
        return MagicMock()

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    to_host(MagicMock(device=card))
    assert made["pin_memory"]
    assert waited == [card]


def test_layers_are_timed_on_a_device_without_touching_the_network() -> None:
    network = load_network(TINY, seed=0)
    settings = ComputeSettings(device="meta")  # type: ignore[arg-type]
    placed = settings.placed(network)
    assert {weight.device for layer in placed.layers for weight in layer.module.parameters()} == {META}
    assert {weight.device for layer in network.layers for weight in layer.module.parameters()} == {HOST}
    with training_mode(placed):
        seconds = PassTimer(placed, lambda _: None, settings=settings).run(4)
    assert seconds.shape == (3, len(network.layers))
    assert (seconds >= 0).all()


def test_every_reading_of_the_clock_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    network, events = load_network(TINY, seed=0), list[str]()
    monkeypatch.setattr(pass_timer, "synchronize", lambda _: events.append("waited"))

    def clock() -> float:
        events.append("read")
        return float(len(events))

    with training_mode(network):
        PassTimer(network, lambda _: None, clock).run(2)
    assert events == ["waited", "read"] * (len(events) // 2)
    assert len(events) > 4 * len(network.layers)
