"""Bandwidth and latency by transfers of our own, over emulated links."""

from __future__ import annotations

import pytest

from palmette.control.run.engines import engine_of
from palmette.control.run.request import Request
from palmette.measure.bandwidth import MeasuredLink, measure_bandwidth
from palmette.spec.cluster import Cluster, Link, Node


def lan(mbps: float, latency_s: float = 0.0) -> Cluster:
    nodes = {name: Node(tier="edge") for name in ("a", "b")}
    return Cluster(nodes=nodes, links=(Link(between=("a", "b"), bandwidth_bps=mbps * 1e6, latency_s=latency_s),))


def measured(cluster: Cluster, testbed: str) -> MeasuredLink:
    request = Request(testbed=testbed, dilation=1.0)
    return measure_bandwidth("a", "b", cluster, lambda plan, prices: engine_of(request, plan, prices)[0])


def assert_ten_mbit(found: MeasuredLink) -> None:
    """Hardly faster than the link; on a busy machine it may be slower."""
    for bps in (found.up_bps, found.down_bps):
        assert 5e6 < bps < 12.5e6


@pytest.mark.timing
@pytest.mark.slow
def test_a_paced_link_has_its_bandwidth_and_latency() -> None:
    found = measured(lan(10.0, 0.05), "paced")
    assert_ten_mbit(found)
    assert 0.05 <= found.latency_s < 0.5


@pytest.mark.timing
@pytest.mark.slow
def test_this_machine_as_it_is() -> None:
    found = measured(lan(1.0), "none")
    assert found.bandwidth_bps > 10e6  # what the file says does not count
    assert found.latency_s < 0.5


@pytest.mark.timing
@pytest.mark.namespaces
def test_a_namespaced_link_has_its_bandwidth() -> None:
    assert_ten_mbit(measured(lan(10.0), "namespaces"))
