"""A cluster file to start from: valid, connected, and as it was asked for."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import palmette as pt
from palmette.cost.routes import Routes
from palmette.errors import InputError
from palmette.spec.cluster import Cluster
from palmette.zoo.cluster_template import ClusterTemplate, render_cluster


def loaded(folder: Path, template: ClusterTemplate) -> Cluster:
    file = folder / "cluster.yaml"
    file.write_text(render_cluster(template))
    return pt.load_cluster(file)


@pytest.mark.parametrize("counts", [each for each in itertools.product(range(3), repeat=3) if sum(each)])
def test_every_mix_of_tiers_is_valid_and_all_can_talk(tmp_path: Path, counts: tuple[int, int, int]) -> None:
    cluster = loaded(tmp_path, ClusterTemplate(counts=dict(zip(("device", "edge", "cloud"), counts, strict=True))))
    assert [len(cluster.tier(tier)) for tier in ("device", "edge", "cloud")] == list(counts)
    assert cluster.sources()
    routes = Routes(cluster)
    assert all(routes.between(a, b) is not None for a, b in itertools.combinations(cluster.nodes, 2))


def test_answers_stand_in_the_file(tmp_path: Path) -> None:
    template = ClusterTemplate(
        bandwidth="3 Mbit/s", cloud_bandwidth="700 kbit/s", samples=7, private=True, local="edge"
    )
    cluster = loaded(tmp_path, template)
    assert [link.bandwidth_bps for link in cluster.links] == [3e6, 7e5]
    source = cluster.nodes["device"].source
    assert source is not None
    assert (source.samples, source.private) == (7, True)
    assert cluster.nodes["edge"].host == "local"
    assert cluster.nodes["cloud"].power is not None  # the catalogue's


def test_it_has_comments() -> None:
    assert render_cluster(ClusterTemplate()).count("#") >= 8


def test_examples_of_how_samples_are_stored_can_be_taken_as_they_are(tmp_path: Path) -> None:
    text = render_cluster(ClusterTemplate(private=True))
    lines = [line for line in text.splitlines() if "    source:" not in line]
    (tmp_path / "cluster.yaml").write_text(
        "\n".join(line.replace("# ", "", 1) if "# source:" in line or "# storage:" in line else line for line in lines)
    )
    cluster = pt.load_cluster(tmp_path / "cluster.yaml")
    source = cluster.nodes["device"].source
    assert source is not None
    assert (source.private, source.sample_bytes, source.stream) == (True, 3072, True)
    assert cluster.nodes["edge"].storage_bytes == 2**35


def test_nodes_that_all_own_data_may_keep_that_of_others(tmp_path: Path) -> None:
    cluster = loaded(tmp_path, ClusterTemplate(counts={"device": 2, "edge": 0, "cloud": 0}, storage="1 GB"))
    assert {node.storage_bytes for node in cluster.nodes.values()} == {1e9}


def test_all_faults_at_once() -> None:
    wrong = ClusterTemplate(
        counts={"device": -1, "edge": 0, "cloud": 1},
        hardware={"device": "abacus", "edge": "nuc-i3-7100u-4", "cloud": "xeon-gtx-1080-ti"},
        bandwidth="5",
        cloud_bandwidth="0 bit/s",
        samples=0,
    )
    with pytest.raises(InputError) as caught:
        render_cluster(wrong)
    fields = [fault.field for fault in caught.value.faults]
    assert fields == ["devices", "device_hardware", "bandwidth", "cloud_bandwidth", "samples"]


@pytest.mark.parametrize("count", [0, 20_000])
def test_none_and_too_many(count: int) -> None:
    with pytest.raises(InputError, match="expected 1 to 10000 nodes"):
        render_cluster(ClusterTemplate(counts={"device": count, "edge": 0, "cloud": 0}))


def test_this_machine_is_one_of_them() -> None:
    with pytest.raises(InputError, match="did you mean cloud"):
        render_cluster(ClusterTemplate(local="clod"))
