"""Which runs a pilot makes."""

from __future__ import annotations

import pytest

import palmette as pt
from palmette.control.pilot.grid import PilotGrid, PilotSetting, shorter_lengths
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
    assert second.work(Cluster(nodes=OWN), 8) == 2


def test_shorter_runs_come_last_with_each_fraction_and_the_fewest_replicas() -> None:
    cluster, grid = Cluster(nodes=OWN), PilotGrid(fractions=(1.0, 0.5), replicas=(2, 4), windows=(1, 8))
    whole, found = grid.settings(cluster), grid.settings(cluster, shorter_lengths(10))
    assert found[: len(whole)] == whole
    assert [each.name for each in found[len(whole) :]] == [
        "data-1-replicas-2-epochs-5", "data-0.5-replicas-2-epochs-5",
        "data-1-replicas-2-epochs-2", "data-0.5-replicas-2-epochs-2",
    ]  # fmt: skip
    assert found[-1].work(cluster, 10) == 1


@pytest.mark.parametrize(("epochs", "shorter"), [(2, [1]), (3, [2, 1]), (4, [2, 1]), (12, [6, 3])])
def test_runs_end_after_a_half_and_a_quarter(epochs: int, shorter: list[int]) -> None:
    assert shorter_lengths(epochs) == shorter


def test_names_tell_settings_apart() -> None:
    settings = PilotGrid(each_source=True, replicas=(1, 12)).settings(Cluster(nodes=OWN), shorter_lengths(8))
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
