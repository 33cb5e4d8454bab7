"""The time of codecs: all of them, measured here, and the same every time where it is predicted."""

from __future__ import annotations

from palmette.measure.coding_time import REFERENCE_S, measure_coding_time, predict_coding_time
from palmette.spec.codec import CODEC_KINDS
from palmette.spec.exchange import EXCHANGE_KINDS
from palmette.zoo.hardware import hardware


def test_every_codec_that_changes_numbers_has_times() -> None:
    lossy = {name for name, kind in {**CODEC_KINDS, **EXCHANGE_KINDS}.items() if kind.lossy}
    found = measure_coding_time()
    assert found.keys() == REFERENCE_S.keys() == lossy
    assert all(0 < each_s < 1e-5 for both in found.values() for each_s in both)


def test_a_slower_machine_takes_longer() -> None:
    pi, xeon = (predict_coding_time(hardware(name)) for name in ("raspberry-pi-3", "xeon-gtx-1080-ti"))
    assert all(pi[codec][0] > xeon[codec][0] for codec in REFERENCE_S)
