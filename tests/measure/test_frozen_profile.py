"""A profile for a run that freezes more is the profile of the network that has it frozen."""

from __future__ import annotations

import pytest

from palmette.measure.frozen_profile import with_frozen
from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster, Node
from palmette.spec.profile import Profile
from palmette.zoo.freezing import frozen_network
from palmette.zoo.models import Network, load_network

CLUSTER = Cluster(nodes={"pi": Node(tier="device", hardware="raspberry-pi-3")})
ADAPTERS = "tests.runtime.networks:adapters"


def loaded(model: str, *patterns: str) -> Network:
    return frozen_network(load_network(model, seed=0), patterns)


def assert_same(found: Profile, expected: Profile) -> None:
    for one, other in zip(found.layers, expected.layers, strict=True):
        assert (one.learned_bytes, one.returned_bytes) == (other.learned_bytes, other.returned_bytes), one.name
    mine, theirs = found.nodes["pi"], expected.nodes["pi"]
    for field in ("forward_s", "backward_s", "backward_call_s"):
        assert getattr(mine, field) == pytest.approx(getattr(theirs, field)), field
    assert mine.update_s == pytest.approx(theirs.update_s, rel=0.02)  # a part of an update is not by the byte
    assert found.ties == expected.ties


@pytest.mark.parametrize(
    ("model", "patterns"),
    [
        ("lenet5", ["conv1"]),
        ("lenet5", ["conv*"]),
        ("lenet5", ["fc2", "conv2.*"]),
        ("lenet5", ["*.bias"]),
        (ADAPTERS, ["blocks.0.*"]),
        (ADAPTERS, ["blocks.*"]),
    ],
)
def test_what_a_run_freezes_is_priced_as_what_the_module_freezes(model: str, patterns: list[str]) -> None:
    profile, frozen = profile_network(loaded(model), CLUSTER), loaded(model, *patterns)
    found, expected = with_frozen(profile, frozen), profile_network(frozen, CLUSTER)
    assert found != profile
    assert_same(found, expected)
    assert with_frozen(found, frozen) is found
    assert with_frozen(expected, frozen) is expected


def test_smaller_networks_are_frozen_alike() -> None:
    model = "tests.runtime.networks:tiny"
    profile = profile_network(loaded(model), CLUSTER, variants=(0.5,))
    found = with_frozen(profile, loaded(model, "conv1", "fc1")).variants["0.5"]
    assert [layer.learned_bytes > 0 for layer in found.layers] == [False, False, True, False, True]
    assert found.layers[0].returned_bytes == 0
    assert found.nodes["pi"].backward_s[0] == 0


def test_nothing_flows_back_below_all_that_learns() -> None:
    frozen = loaded("lenet5", "conv1", "conv2")
    assert [any(spec.gradient for spec in layer.outputs) for layer in frozen.layers][:3] == [False, False, False]
    assert all(spec.gradient for spec in frozen.layers[-1].outputs)
    assert loaded("lenet5").layers[0].outputs[0].gradient
