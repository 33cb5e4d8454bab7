"""Links to a hub, shaped by the kernel: their bandwidth is measured, and the estimate of a run meets the run."""

from __future__ import annotations

import json

import pytest

import palmette as pt
from benchmarks.home_networks import HomeNetwork, why_no_networks
from palmette.cli import execute
from tests.control.hub_workers import HubWorkers
from tests.cost.small import instance, phase, source
from tests.durations import lasting
from tests.runtime.world import Runs
from tests.testbed.test_namespaces import eventually

NODES = """\
nodes:
  phone: {tier: device, threads: 1, source: {samples: 300}}
  cloud: {tier: cloud, threads: 1}
"""
RATES_MBIT = {"phone": (4.0, 8.0), "cloud": (10.0, 6.0)}
REPLICAS = phase(
    source("phone", 4, "here"),
    source("phone", 4, "there"),
    instance("here", 1, 7, "phone"),
    instance("there", 1, 7, "cloud"),
)


@pytest.mark.namespaces
@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(why_no_networks("nft", "tc") is not None, reason=str(why_no_networks("nft", "tc")))
def test_an_estimate_by_measured_links_meets_a_run_through_the_hub(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.cluster.write_text(NODES)
    measured, profile, out = (runs.folder / name for name in ("measured.yaml", "measured.json", "out"))
    with (
        HubWorkers(runs.folder, "0.0.0.0") as place,
        HomeNetwork(4, *RATES_MBIT["phone"]) as one,
        HomeNetwork(5, *RATES_MBIT["cloud"]) as other,
        one.worker(place.keys.folder, "phone", place.hub.port),
        other.worker(place.keys.folder, "cloud", place.hub.port),
    ):
        assert eventually(lambda: set(RATES_MBIT) <= place.hub.present(), 120)
        words = ["lenet5", "--cluster", str(runs.cluster), *place.options, "--write-cluster", str(measured)]
        assert execute(["profile", *words, "-o", str(profile)]) == 0
        files = ["--profile", str(profile), "--cluster", str(measured)]
        words = [str(runs.plan("lenet5", REPLICAS)), *files, *place.options, "--iterations", "10", "-o", str(out)]
        assert execute(["run", *words]) == 0
    rates = {link.between[0]: link.rates_bps for link in pt.load_cluster(measured).links}
    for node, expected in RATES_MBIT.items():
        assert all(0.6 * mbit < bps / 1e6 < 1.2 * mbit for bps, mbit in zip(rates[node], expected, strict=True))
    record = json.loads((out / "run.json").read_text())
    assert record["iteration_s"] == lasting(record["estimate_s"], sooner=0.4)  # measured while it was busy, too
    assert "all messages pass the hub" not in capsys.readouterr().err
