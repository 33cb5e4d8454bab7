"""Asynchronous workers: a parameter server, and workers that share links, queue for the server, or differ in speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

MODEL, SAMPLES = "lenet5", 16
ITERATIONS = 48
BANDWIDTHS_MBIT = (5.0, 20.0, 100.0)
ALIKE = dict.fromkeys(("w1", "w2", "w3", "w4"), "raspberry-pi-4")
UNLIKE = {"w1": "raspberry-pi-4", "w2": "raspberry-pi-3", "w3": "nuc-i3-7100u-1"}

Case = tuple[str, str, float, Plan, Profile, Cluster]


def behind_one_link(workers: Mapping[str, str], bandwidth_mbit: float) -> Cluster:
    """Workers on links of 100 Mbit/s to a gateway; one link from there to the server."""
    own = dict.fromkeys(workers, 100.0)
    return _cluster(
        workers, {**{(name, "gate"): rate for name, rate in own.items()}, ("gate", "server"): bandwidth_mbit}
    )


def own_links(workers: Mapping[str, str], bandwidth_mbit: float) -> Cluster:
    """Every worker on a link of its own to the server."""
    return _cluster(workers, {(name, "server"): bandwidth_mbit for name in workers})


def _cluster(workers: Mapping[str, str], links_mbit: Mapping[tuple[str, str], float]) -> Cluster:
    others = {"server": "nuc-i3-7100u-4", "gate": "nuc-i3-7100u-1"}
    used = [name for name in others if any(name in ends for ends in links_mbit)]
    nodes = {name: {"tier": "device", "hardware": what, "source": {"samples": 1500}} for name, what in workers.items()}
    nodes |= {name: {"tier": "edge", "hardware": others[name]} for name in used}
    links = [{"between": ends, "bandwidth": f"{rate} Mbit/s", "latency": "2 ms"} for ends, rate in links_mbit.items()]
    return fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))


def asynchronous_cases(bandwidths: list[float], quick: bool) -> Iterator[Case]:
    """Alike and unlike workers, behind one link or on their own, at several bandwidths of the server's links."""
    network = load_network(MODEL)
    worlds = {
        "async: alike, one link": (behind_one_link, ALIKE),
        "async: unlike, one link": (behind_one_link, UNLIKE),
        "async: alike, own links": (own_links, ALIKE),
        "async: unlike, own links": (own_links, UNLIKE),
    }
    asked = bandwidths or (BANDWIDTHS_MBIT[1:2] if quick else BANDWIDTHS_MBIT)
    for name, (joined, workers) in list(worlds.items())[: 1 if quick else None]:
        for bandwidth in asked:
            where = joined(workers, bandwidth)
            yield (
                MODEL,
                name,
                bandwidth,
                _plan(list(workers), len(network.layers)),
                profile_network(network, where, []),
                where,
            )


def _plan(workers: list[str], layers: int) -> Plan:
    phase = Phase.model_validate(
        {
            "sync": "async",
            "server": "server",
            "sources": [{"node": name, "samples": SAMPLES, "into": name} for name in workers],
            "instances": [{"id": name, "layers": (1, layers), "node": name, "into": None} for name in workers],
        }
    )
    return Plan(model=MODEL, batch=SAMPLES * len(workers), phases=(phase,))
