"""Which runs a pilot makes."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.control.pilot.grid import PilotGrid, PilotSetting
from palmette.spec.cluster import Cluster, Node, Source
from palmette.spec.exchange import known_exchange

OWN = {
    "phone 1": Node(tier="device", source=Source(samples=300, data="digits")),
    "../x": Node(tier="device", source=Source(samples=100, data="digits")),
}


def test_each_fraction_is_combined_with_each_number_of_replicas() -> None:
    found = PilotGrid(fractions=(0.5, 1.0, 0.5), replicas=(2, 1)).settings(Cluster(nodes=OWN))
    assert [(each.fraction, each.replicas) for each in found] == [(1.0, 1), (0.5, 1), (1.0, 2), (0.5, 2)]


def test_sources_train_alone_beside_the_others() -> None:
    *_, first, second = PilotGrid(each_source=True).settings(Cluster(nodes=OWN))
    assert (first.source, second.source) == ("phone 1", "../x")
    assert second.name == "data-1-replicas-1-source-%2E%2E%2Fx"
    assert second.work(Cluster(nodes=OWN)) == 0.25


def test_names_tell_settings_apart() -> None:
    settings = PilotGrid(each_source=True, replicas=(1, 12)).settings(Cluster(nodes=OWN))
    assert len({each.name for each in settings}) == len(settings)


def test_sources_that_share_data_do_not_train_alone() -> None:
    shared = {"a": Node(tier="device", source=Source(samples=3)), "b": Node(tier="edge", source=Source(samples=3))}
    with pytest.raises(pt.InputError, match="share their data"):
        PilotGrid(each_source=True).settings(Cluster(nodes=shared))


def test_every_number_out_of_range_is_named() -> None:
    with pytest.raises(pt.InputError) as refused:
        PilotGrid(fractions=(0.0, 0.5, 1.5, float("nan")), replicas=())
    assert [fault.field for fault in refused.value.faults] == ["replicas", "fractions", "fractions", "fractions"]


def test_the_usual_setting_is_all_data_once() -> None:
    assert PilotSetting().name == "data-1-replicas-1"


def test_codecs_have_runs_with_the_most_and_the_least_data_and_of_gradients_and_differences() -> None:
    codecs = tuple(map(known_exchange, ("none", "int8", "topk", "topk:0.01")))
    grid = PilotGrid(replicas=(1, 3), windows=(1, 4, 16), exchange_codecs=codecs, output_codecs=("none", "int8"))
    coded = [each for each in grid.settings(Cluster(nodes=OWN)) if each.needs_several_nodes]
    assert [each.name for each in coded] == [
        "data-1-replicas-3-exchange-int8",
        "data-0.25-replicas-3-exchange-int8",
        "data-1-replicas-3-window-16-exchange-int8",
        "data-0.25-replicas-3-window-16-exchange-int8",
        "data-1-replicas-3-exchange-topk-0.01",
        "data-0.25-replicas-3-exchange-topk-0.01",
        "data-1-replicas-3-window-16-exchange-topk-0.01",
        "data-0.25-replicas-3-window-16-exchange-topk-0.01",
        "data-1-replicas-1-outputs-int8",
        "data-0.25-replicas-1-outputs-int8",
    ]


def test_one_replica_exchanges_nothing() -> None:
    with pytest.raises(pt.InputError, match="exchange_codecs: int8: one replica has no other"):
        PilotGrid(replicas=(1,), exchange_codecs=(known_exchange("int8"),))
