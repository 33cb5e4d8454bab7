"""How far a pre-training is, by the seconds that its devices are expected to train."""

from __future__ import annotations

from palmette.control.pretrain.progress import PretrainMeter, PretrainProgress


def test_devices_count_by_the_time_that_they_take() -> None:
    told: list[PretrainProgress] = []
    meter = PretrainMeter(told.append)
    meter.say("layer times")
    meter.expect({"phone": 30.0, "server": 10.0})
    meter.begin("phone")
    meter.step(0.5)
    meter.begin("server")
    meter.step(0.5)
    meter.say("building")
    assert told == [
        ("layer times", 0.0, None),
        ("phone trains alone", 0.0, 40.0),
        ("phone trains alone", 0.375, 40.0),
        ("server trains alone", 0.75, 40.0),
        ("server trains alone", 0.875, 40.0),
        ("building", 1.0, 40.0),
    ]


def test_nothing_is_promised_where_nothing_is_expected() -> None:
    told: list[PretrainProgress] = []
    meter = PretrainMeter(told.append)
    meter.expect({"phone": 0.0})
    meter.begin("phone")
    meter.step(0.5)
    assert {(each.done, each.expected_s) for each in told} == {(0.0, None)}
