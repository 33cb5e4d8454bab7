"""Decoding is timed like a layer, and its time is a part of the first layer's."""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time

import pytest
import torch
from torch import Tensor

from palmette.measure.call_time_fit import CallTime
from palmette.measure.decode_time import (
    REFERENCE_CALL_S,
    DecodeTimer,
    measure_decode_time,
    predict_decode_time,
    with_decoding,
)
from palmette.spec.profile import Times
from palmette.zoo.data import load_data
from palmette.zoo.data.custom_stored import StoredSplit
from palmette.zoo.hardware import hardware


class Slow:
    """Samples of different sizes that take some time to decode."""

    many = 300

    def __len__(self) -> int:
        return self.many

    def stored(self, k: int) -> bytes:
        return bytes(1 + k % 3)

    @staticmethod
    def decode(data: bytes) -> Tensor:
        end_s = thread_time() + 1e-4
        while thread_time() < end_s:
            pass
        return torch.full((2,), len(data), dtype=torch.uint8)

    def label(self, k: int) -> int:
        return k


@pytest.mark.timing
def test_decoding_takes_what_it_takes() -> None:
    split = StoredSplit("slow", Slow(), range(300), (2,))
    found = measure_decode_time(split, torch.float32)
    assert found.sample_s == pytest.approx(1e-4, rel=0.3)
    assert 0 <= found.call_s < 1e-3


def test_samples_from_all_over_the_data_are_decoded_with_seeds_into_the_networks_dtype() -> None:
    split = load_data("digits", (1, 8, 8)).train
    asked: list[tuple[list[bytes], list[int]]] = []

    class Noting:
        def decode(self, stored: Sequence[bytes], seeds: Sequence[int] | None = None) -> Tensor:
            assert seeds is not None
            asked.append((list(stored), list(seeds)))
            return split.decoder.decode(stored)

    timer = DecodeTimer(split, torch.float64)
    timer.decoder = Noting()
    for samples in (100, 100):
        assert timer.run(samples).shape == (1, 1)
    (first, seeds), (then, _) = asked
    assert first[0] == split.stored([0])[0]
    assert then[27] == split.stored([1499])[0]
    assert then[28] == first[0]
    assert len(seeds) == 100


def test_a_slower_host_decodes_more_slowly() -> None:
    here, pi = CallTime(2e-5, 3e-6), hardware("raspberry-pi-4")
    there = predict_decode_time(pi, here)
    assert there.sample_s / here.sample_s == pytest.approx(pi.call_s / REFERENCE_CALL_S)
    assert there.call_s / here.call_s == pytest.approx(pi.call_s / REFERENCE_CALL_S)


def test_decoding_is_a_part_of_the_first_layer() -> None:
    layers = Times(forward_s=(1.0, 2.0), backward_s=(3.0, 4.0), update_s=(5.0, 6.0))
    found = with_decoding(layers, CallTime(0.25, 0.5))
    assert (found.forward_s, found.forward_call_s, found.decode_s) == ((1.5, 2.0), (0.25, 0.0), 0.5)
    assert (found.backward_s, found.update_s) == (layers.backward_s, layers.update_s)
    calls = layers.model_copy(update={"forward_call_s": (7.0, 8.0)})
    assert with_decoding(calls, CallTime(0.25, 0.5)).forward_call_s == (7.25, 8.0)
