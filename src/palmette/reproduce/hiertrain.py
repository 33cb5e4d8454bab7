"""HierTrain's Figs. 7 to 11 and Table II, on the paper's machines as the catalogue knows them.

A Raspberry Pi 3, an Intel NUC with one core in use (1 to 4 in Fig. 11) and a workstation with a GTX 1080 Ti;
5 Mbit/s between device and edge server, 1.5 to 5 Mbit/s between edge server and cloud; LeNet-5 on 32×32×3 in 10 classes
and AlexNet on 64×64×3 in 200. The paper does not say its batch; here it is 128 unless told otherwise. Layer times are
predicted by the catalogue's roofline, and a sample travels as the float32 numbers that the network takes. Times are
those of the strategies' own formulas, as in the paper; ``clock_s`` is the event clock's for the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from palmette.measure.profiling import profile_network
from palmette.plan.making import configured, make_plan
from palmette.plan.strategy import Task
from palmette.reproduce.hiertrain_claims import claims
from palmette.spec.cluster import Cluster, Link, Node, Source
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.zoo.equip import equipped
from palmette.zoo.models import load_network

BATCH = 128
DEVICE_EDGE_MBPS = 5.0
EDGE_CLOUD_MBPS = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
NETWORKS = {"AlexNet": "alexnet?classes=200&size=64", "LeNet-5": "lenet5"}
AGAINST_WHOLE = ("hiertrain", "all-edge", "all-cloud", "hybrid")
AGAINST_RIVALS = ("hiertrain", "jointdnn", "jointdnn+", "jalad", "hybrid")
TABLE_2_SIZE = "?classes=200&size=64"
TABLE_2 = {"LeNet": "lenet5"} | {
    name: f"{zoo}{TABLE_2_SIZE}"
    for name, zoo in {
        "AlexNet": "alexnet",
        "VGG-16": "vgg16",
        "VGG-19": "vgg19",
        "googLeNet": "googlenet",
        "ResNet-34": "resnet34",
    }.items()
}

Told = Callable[[str], None]
Record = dict[str, Any]


def machines(edge_cloud_mbps: float, cores: int = 1) -> Cluster:
    """The paper's three machines; only one core of the edge server is in use unless said otherwise."""
    nodes = {
        "device": Node(tier="device", hardware="raspberry-pi-3", source=Source(samples=50_000)),
        "edge": Node(tier="edge", hardware=f"nuc-i3-7100u-{cores}"),
        "cloud": Node(tier="cloud", hardware="xeon-gtx-1080-ti"),
    }
    links = (
        Link(between=("device", "edge"), bandwidth_bps=DEVICE_EDGE_MBPS * 1e6),
        Link(between=("edge", "cloud"), bandwidth_bps=edge_cloud_mbps * 1e6),
    )
    return equipped(Cluster(nodes=nodes, links=links))


def reproduce(batch: int = BATCH, told: Told = lambda _: None) -> Record:
    """All figures and the table, and the paper's claims beside them; ``told`` hears what is being worked on."""
    profiles = {name: _profile(network) for name, network in NETWORKS.items()}
    figures: dict[str, Record] = {}
    for number, network, strategies in (
        ("7", "AlexNet", AGAINST_WHOLE),
        ("8", "LeNet-5", AGAINST_WHOLE),
        ("9", "AlexNet", AGAINST_RIVALS),
        ("10", "LeNet-5", AGAINST_RIVALS),
    ):
        told(f"Fig. {number}")
        figures[number] = over_bandwidth(network, profiles[network], strategies, batch)
    told("Fig. 11")
    figures["11"] = over_cores(batch)
    table = {name: _planning_times(network, batch, told) for name, network in TABLE_2.items()}
    made: Record = {
        "format": "palmette.reproduction/1",
        "paper": "HierTrain",
        "batch": batch,
        "layer_times": "modelled: the catalogue's roofline",
        "device_edge_mbps": DEVICE_EDGE_MBPS,
        "input_bytes": {name: profile.input_bytes for name, profile in profiles.items()},
        "figures": figures,
        "table_2": table,
    }
    return made | {"claims": claims(made)}


def over_bandwidth(network: str, profile: Profile, strategies: Sequence[str], batch: int) -> Record:
    """Seconds of an iteration by each strategy over the bandwidth between edge server and cloud."""
    series: dict[str, list[Record]] = {name: [] for name in strategies}
    for mbps in EDGE_CLOUD_MBPS:
        cluster = machines(mbps)
        for name in strategies:
            series[name].append(_point(_plan(name, profile, cluster, batch)))
    return {
        "title": f"An iteration of {network}",
        "x": list(EDGE_CLOUD_MBPS),
        "x_label": "edge–cloud bandwidth, Mbit/s",
        "series": series,
    }


def over_cores(batch: int) -> Record:
    """HierTrain on AlexNet with 1 to 4 cores of the edge server."""
    series: dict[str, list[Record]] = {}
    for cores in range(1, 5):
        profile = _profile(NETWORKS["AlexNet"], cores)
        plans = [_plan("hiertrain", profile, machines(mbps, cores), batch) for mbps in EDGE_CLOUD_MBPS]
        series[f"{cores} core{'s' * (cores > 1)}"] = [_point(plan) for plan in plans]
    return {
        "title": "HierTrain on AlexNet by cores of the edge server",
        "x": list(EDGE_CLOUD_MBPS),
        "x_label": "edge–cloud bandwidth, Mbit/s",
        "series": series,
    }


def _profile(network: str, cores: int = 1) -> Profile:
    return profile_network(load_network(network), machines(EDGE_CLOUD_MBPS[0], cores))


def _plan(strategy: str, profile: Profile, cluster: Cluster, batch: int, **options: Any) -> Plan:
    return make_plan(configured(strategy, options), Task(profile=profile, cluster=cluster, batch=batch))


def _point(plan: Plan) -> Record:
    """Seconds by the strategy's own formula (hybrid's is the clock), by the clock, and what was decided."""
    assert plan.estimate is not None, "make_plan prices every plan"
    clock_s = plan.estimate.iteration_s
    decided = {key: value for key, value in plan.decision.items() if key != "iteration_s"}
    return {"iteration_s": plan.decision.get("iteration_s", clock_s), "clock_s": clock_s, "decision": decided}


def _planning_times(network: str, batch: int, told: Told) -> Record:
    """Seconds of a planning: Algorithm 1 and the exact search."""
    told(f"Table II, {network.partition('?')[0]}")
    profile, cluster = _profile(network), machines(3.5)
    plans = {method: _plan("hiertrain", profile, cluster, batch, method=method) for method in ("lp", "exact")}
    return {
        "layers": len(profile.layers),
        "algorithm_1_s": plans["lp"].plan_s,
        "exact_s": plans["exact"].plan_s,
        "algorithm_1_total_s": plans["lp"].decision["iteration_s"],
        "exact_total_s": plans["exact"].decision["iteration_s"],
    }
