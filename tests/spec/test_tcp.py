"""Links that lose packets: what TCP reaches on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palmette.cost.evaluate import Evaluator
from palmette.errors import InputError
from palmette.spec.cluster import Cluster
from palmette.spec.files import load
from palmette.spec.link import Link
from palmette.spec.link_trace import BandwidthTrace
from palmette.spec.tcp import reached_bps
from tests.plan.problems import profile, three_tiers

LOSSY: dict[str, Any] = {"between": ("a", "b"), "bandwidth_bps": 50e6, "latency_s": 0.02, "loss_share": 0.01}


def test_it_is_the_formula_of_mathis() -> None:
    """1,460 bytes a round trip of 40 ms are 292 kbit/s; times the root of 150."""
    assert reached_bps(0.04, 0.01) == pytest.approx(292e3 * 150**0.5)
    assert reached_bps(0.04, 0.0) == float("inf")


def test_a_link_carries_no_more_than_tcp_reaches_nor_than_its_bandwidth() -> None:
    assert Link(**LOSSY).rates_bps == (pytest.approx(3.576e6, rel=1e-3),) * 2
    slow = {"bandwidth_bps": None, "up_bps": 1e6, "down_bps": 50e6}
    assert Link(**LOSSY | slow).rates_bps == (1e6, pytest.approx(3.576e6, rel=1e-3))
    assert Link(**LOSSY | {"loss_share": 1e-9}).rates_bps == (50e6, 50e6)


def test_scaling_is_of_what_transfers_reach() -> None:
    link = Link(**LOSSY)
    assert link.scaled(2.0).rates_bps == tuple(2 * rate for rate in link.rates_bps)


def test_the_estimate_is_that_of_a_link_with_the_bandwidth_that_is_reached() -> None:
    lossless = three_tiers()
    links = [link.model_copy(update={"latency_s": 0.05, "bandwidth_bps": 1e9}) for link in lossless.links]
    lossy = [link.model_copy(update={"loss_share": 0.02}) for link in links]
    slow = [link.model_copy(update={"bandwidth_bps": reached_bps(0.1, 0.02)}) for link in links]
    routes = [
        Evaluator(profile(3), lossless.model_copy(update={"links": tuple(each)})).route("phone", "cloud")
        for each in (lossy, slow)
    ]
    assert routes[0].transfer_s(1e6) == routes[1].transfer_s(1e6) > 1e6 * 8 / 1e9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("latency: 0 s, loss: 1%", "links[0].loss: 1%: expected a latency, too"),
        ("latency: 1 ms, loss: 100%", "links[0].loss"),
        ("latency: 1 ms, loss: 0.01", "expected a share with a unit (%)"),
    ],
)
def test_a_wrong_loss_is_told(change: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    nodes = "nodes: {a: {tier: edge, source: {samples: 1}}, b: {tier: edge}}"
    path.write_text(f"{nodes}\nlinks: [{{between: [a, b], bandwidth: 1 Mbit/s, {change}}}]\n")
    with pytest.raises(InputError) as told:
        load(Cluster, path)
    assert said in str(told.value)


def test_a_trace_has_its_losses_already() -> None:
    trace = BandwidthTrace(time_s=(0.0,), down_bps=(1e6,))
    with pytest.raises(ValueError, match="expected none beside a trace"):
        Link(**LOSSY | {"bandwidth_bps": None, "bandwidth_trace": trace})


def test_it_is_written_as_it_is_read(tmp_path: Path) -> None:
    nodes = three_tiers().nodes
    link = Link(between=("phone", "server"), bandwidth_bps=5e6, latency_s=0.01, loss_share=0.005)
    made = Cluster(nodes=nodes, links=(link,))
    path = tmp_path / "cluster.yaml"
    path.write_text(made.to_yaml())
    assert "loss: 0.5 %" in path.read_text()
    assert load(Cluster, path) == made
