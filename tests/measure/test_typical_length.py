"""A profile of a network whose batches vary in length: sizes of a typical one, memory of the longest."""

from __future__ import annotations

import numpy as np
import pytest

from palmette.measure.contexts import no_progress
from palmette.measure.layer_sizes import layer_sizes
from palmette.measure.typical_length import at_typical_length, layer_sizes_of_lengths, length_notes
from palmette.zoo.lengths import SampleLengths, mean_lengths
from palmette.zoo.models import TYPICAL_BATCH, load_network
from tests.runtime import length_recipes


def test_sizes_are_those_of_a_typical_batch_and_memory_that_of_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palmette.zoo.models.TYPICAL_BATCH", 2)
    network = load_network("tests.runtime.length_recipes:encoder", seed=0)
    (typical,), longest = network.typical_lengths, 9
    assert 1 < typical < longest
    found, whole = layer_sizes_of_lengths(network, no_progress), layer_sizes(network, no_progress)
    assert found[0].output_bytes == pytest.approx(whole[0].output_bytes * typical / longest)
    assert [layer.activation_bytes for layer in found] == [layer.activation_bytes for layer in whole]
    assert at_typical_length(network).inputs[0].shape == (typical,)
    assert f"{typical} of at most 9 long" in length_notes(network)[0]


def test_a_typical_length_is_the_mean_of_batches() -> None:
    known = SampleLengths(np.array([[1], [1], [1], [9]], dtype=np.int32), (), ())
    assert mean_lengths(known, 4) == (9,)
    assert mean_lengths(known, 1) == (3,)


def test_a_network_of_one_length_is_left_alone() -> None:
    network = load_network("lenet5")
    assert at_typical_length(network) is network
    assert not length_notes(network)
    assert len(length_recipes.encoder.data[0]) >= TYPICAL_BATCH
