"""``--freeze`` names layers or weights, and says when it names nothing."""

from __future__ import annotations

import pytest

from palmette.errors import InputError
from palmette.runtime.freezing import frozen
from palmette.zoo.models import load_network

LAYERS = load_network("lenet5", seed=0).layers


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("conv1", ("conv1.0.weight", "conv1.0.bias")),
        ("conv1.*", ("conv1.0.weight", "conv1.0.bias")),
        ("fc3.bias", ("fc3.bias",)),
        ("conv?.*weight", ("conv1.0.weight", "conv2.0.weight")),
    ],
)
def test_a_pattern_names_a_layer_or_weights(pattern: str, expected: tuple[str, ...]) -> None:
    assert frozen(LAYERS, [pattern]) == expected


def test_everything_and_nothing() -> None:
    assert len(frozen(LAYERS, ["*"])) == 10
    assert frozen(LAYERS, []) == ()


def test_patterns_add_up_without_repeating() -> None:
    assert frozen(LAYERS, ["fc3", "fc3.bias"]) == ("fc3.weight", "fc3.bias")


def test_what_matches_nothing_is_refused_each_with_its_nearest() -> None:
    with pytest.raises(InputError) as refused:
        frozen(LAYERS, ["conv", "fc1", "pool1"])
    first, second = (str(fault) for fault in refused.value.faults)
    assert first == "--freeze: conv: no such layer with weights; did you mean conv2?"
    assert second.startswith("--freeze: pool1: no such layer with weights; expected one of conv1, conv2, fc1, fc2, ")
