"""Each node of a cluster gets times, and says whether they were measured or modelled."""

from __future__ import annotations

import json

import pytest
import torch

from palmette.errors import InputError
from palmette.measure import profiling
from palmette.measure.call_time_fit import CallTime
from palmette.measure.decode_time import REFERENCE_CALL_S
from palmette.measure.profiling import load_samples, profile_network
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.profile import Profile, Times
from palmette.zoo import hardware as catalogue
from palmette.zoo.hardware import hardware
from palmette.zoo.models import load_network
from tests.measure.networks import tiny


def cluster(**nodes: dict[str, str]) -> Cluster:
    return Cluster.model_validate({"nodes": {name: {"tier": "device", **node} for name, node in nodes.items()}})


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes measuring quick; returns the networks that were measured."""
    measured: list[str] = []

    def quickly(_: object, sizes: tuple[object, ...], __: object, ___: object) -> Times:
        measured.append("once")
        seconds = tuple(1.0 + place for place in range(len(sizes)))
        return Times(forward_s=seconds, backward_s=seconds, update_s=seconds, source="measured")

    monkeypatch.setattr(profiling, "measure_layer_times", quickly)
    return measured


def test_smaller_networks_are_profiled_like_the_whole_one(measurements: list[str]) -> None:
    here, pi = {"host": "local"}, {"hardware": "raspberry-pi-3"}
    network = load_network("tests.runtime.networks:tiny", seed=0)
    profile = profile_network(network, cluster(here=here, pi=pi), variants=(0.5, 0.25, 0.5))

    assert measurements == ["once"] * 3
    assert list(profile.variants) == ["0.25", "0.5"]
    held = sum(layer.parameter_bytes for layer in profile.layers)
    for fraction, table in profile.variants.items():
        assert [layer.name for layer in table.layers] == [layer.name for layer in profile.layers]
        left = sum(layer.parameter_bytes for layer in table.layers) / held
        assert left == pytest.approx(1 - float(fraction), abs=0.05)
        assert {name: times.source for name, times in table.nodes.items()} == {"here": "measured", "pi": "modelled"}
        assert sum(table.nodes["pi"].forward_s) < sum(profile.nodes["pi"].forward_s)
        took_s = table.nodes["here"].prune_s
        assert took_s is not None
        assert took_s > 0
        assert table.nodes["pi"].prune_s is None
    assert profile.nodes["here"].prune_s is None


def test_variants_that_cannot_be_are_all_refused(measurements: list[str]) -> None:
    network = load_network("tests.runtime.networks:tiny", seed=0)
    with pytest.raises(InputError) as caught:
        profile_network(network, cluster(here={"host": "local"}), variants=(0.0, 0.5, 1.0, 0.9999))
    assert [fault.value for fault in caught.value.faults] == [0.0, 0.9999, 1.0]
    assert {fault.field for fault in caught.value.faults} == {"variants"}
    assert measurements == []


def test_modelled_times_are_the_catalogues(measurements: list[str]) -> None:
    profile = profile_network(tiny(), cluster(pi={"hardware": "raspberry-pi-3"}))
    pi, times = hardware("raspberry-pi-3"), profile.nodes["pi"]

    assert measurements == []
    assert times.source == "modelled"
    moved = [32 + 32, 32 + 16, 16 + 16, 16 + 8]
    for place, (layer, bytes_moved) in enumerate(zip(profile.layers, moved, strict=True)):
        weights = layer.parameter_bytes
        learns = place > 0  # the first layer has no weights: it needs no gradient
        assert times.forward_s[place] == catalogue.forward_s(pi, layer.flops, bytes_moved)
        assert times.backward_s[place] == learns * catalogue.backward_s(pi, layer.flops, bytes_moved)
        assert times.update_s[place] == catalogue.update_s(pi, weights)
        assert times.forward_call_s is not None
        assert times.forward_call_s[place] == catalogue.forward_call_s(pi, weights)
        assert times.backward_call_s is not None
        assert times.backward_call_s[place] == learns * catalogue.backward_call_s(pi, weights)


def test_nodes_are_measured_that_are_named_or_local(measurements: list[str]) -> None:
    nodes = cluster(
        far={"hardware": "a100"},
        named={},
        local={"host": "local"},
        both={"hardware": "raspberry-pi-4"},
    )
    profile = profile_network(tiny(), nodes, ["both", "named"])

    sources = {name: times.source for name, times in profile.nodes.items()}
    assert sources == {"far": "modelled", "named": "measured", "local": "measured", "both": "measured"}
    assert list(profile.nodes) == list(nodes.nodes)
    assert measurements == ["once"]


def test_a_measured_profile_survives_its_file() -> None:
    profile = profile_network(tiny(), cluster(here={"host": "local"}, pi={"hardware": "raspberry-pi-4"}))
    read = validated(Profile, json.loads(profile.to_json()))
    assert read == profile
    assert read.to_json() == profile.to_json()
    assert (read.model, read.input_bytes) == ("hand", 32)


@pytest.mark.usefixtures("measurements")
def test_decoding_stored_samples_is_a_part_of_the_first_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "measure_decode_time", lambda *_: CallTime(0.25, 0.5))
    network = load_network("tests.runtime.networks:tiny", seed=0)
    nodes = cluster(here={"host": "local"}, pi={"hardware": "raspberry-pi-3"}, far={})
    ones = (1.0,) * len(network.layers)
    times = Times(forward_s=ones, backward_s=ones, update_s=ones, source="measured")
    elsewhere = {"far": {0.0: times, 0.5: times}}
    plain, stored = (
        profile_network(network, nodes, elsewhere=elsewhere, variants=(0.5,), samples=samples)
        for samples in (None, load_samples(network, "digits", "stored"))
    )

    assert (plain.sample_bytes, stored.sample_bytes) == (None, 64)
    slower = {"here": 1.0, "pi": hardware("raspberry-pi-3").call_s / REFERENCE_CALL_S, "far": 1.0}
    for before, after in ((plain, stored), (plain.variants["0.5"], stored.variants["0.5"])):
        for name, factor in slower.items():
            old, new = before.nodes[name], after.nodes[name]
            assert old.decode_s is None
            assert new.decode_s == pytest.approx(0.5 * factor)
            assert new.forward_s[0] == pytest.approx(old.forward_s[0] + 0.5 * factor)
            assert new.forward_s[1:] == old.forward_s[1:]
    assert validated(Profile, json.loads(stored.to_json())) == stored


def test_samples_that_travel_as_tensors_add_nothing() -> None:
    assert load_samples(tiny(), None, "stored") is None
    assert load_samples(tiny(), "digits", "tensor") is None
    with pytest.raises(InputError, match="input_as: tensors: no such form of samples; did you mean tensor"):
        load_samples(tiny(), None, "tensors")  # type: ignore[arg-type]


def test_every_node_without_times_is_told(measurements: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        profile_network(tiny(), cluster(one={}, two={"hardware": "a100"}, three={"host": "10.0.0.3"}))
    assert str(caught.value).splitlines() == [
        "nodes.one: no times: give it hardware: … or host: local, or measure it with --on one",
        "nodes.three: no times: give it hardware: … or host: local, or measure it with --on three",
    ]
    assert measurements == []


def test_every_unknown_node_is_told() -> None:
    with pytest.raises(InputError) as caught:
        profile_network(tiny(), cluster(phone={}), ["phon", "cloud"])
    assert str(caught.value).splitlines() == [
        "on: phon: no such node; did you mean phone?",
        "on: cloud: no such node; expected one of phone",
    ]


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_gpu_is_not_measured_as_a_cpu(measurements: list[str], device: str) -> None:
    with pytest.raises(InputError, match=rf"nodes\.card\.device: {device}: this machine's torch has no such device"):
        profile_network(tiny(), cluster(card={"device": device}), ["card"])
    assert measurements == []


def test_nodes_with_as_many_threads_are_measured_once(measurements: list[str]) -> None:
    here, two = {"host": "local"}, {"host": "local", "threads": 2}
    profile_network(tiny(), cluster(one=here, other=here, wide=two, wider=two))
    assert measurements == ["once"] * 2


@pytest.mark.slow
def test_a_node_is_measured_with_its_threads() -> None:
    before = torch.get_num_threads()
    profile = profile_network(tiny(), cluster(one={"host": "local"}, wide={"host": "local", "threads": 2}))
    threads = {name: (times.model_extra or {})["measured_with"]["threads"] for name, times in profile.nodes.items()}
    assert threads == {"one": 1, "wide": 2}
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_half_precision_keeps_less_and_sends_as_much() -> None:
    nodes = cluster(here={"host": "local"}, pi={"hardware": "raspberry-pi-3"})
    single, half = profile_network(tiny(), nodes), profile_network(tiny(), nodes, precision="bf16")
    assert (single.precision, half.precision) == (None, "bf16")
    assert [each.output_bytes for each in half.layers] == [each.output_bytes for each in single.layers]
    assert sum(each.kept_bytes for each in half.layers) < sum(each.kept_bytes for each in single.layers)
    assert half.nodes["pi"] == single.nodes["pi"]
    assert half.notes[-1] == "pi: predicted for float32, not bf16: what that changes there was not measured"
