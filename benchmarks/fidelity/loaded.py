"""Cases for a busy machine: many sources, many instances, and iterations of milliseconds.

    python -m benchmarks.fidelity --loaded --load 4

Emulated time on a busy machine is the hard part: calls overrun, and threads have their turns late.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import palmette as pt
from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

MODEL = "lenet5"
PHONES = 5

Case = tuple[str, str, float, Plan, Profile, Cluster]


def fleet(bandwidth_mbit: float) -> Cluster:
    """Five phones that own data, two edge servers and a cloud."""
    owns = {"tier": "device", "hardware": "raspberry-pi-4", "source": {"samples": 300}}
    nodes: dict[str, Any] = {f"phone{k}": owns for k in range(PHONES)}
    nodes |= {f"edge{k}": {"tier": "edge", "hardware": "nuc-i3-7100u-1"} for k in range(2)}
    nodes["cloud"] = {"tier": "cloud", "hardware": "nuc-i3-7100u-4"}
    rate = {"bandwidth": f"{bandwidth_mbit} Mbit/s", "latency": "2 ms"}
    links = [{"between": [f"phone{k}", f"edge{k % 2}"], **rate} for k in range(PHONES)]
    links += [{"between": [f"edge{k}", "cloud"], **rate} for k in range(2)]
    return fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))


def seven_instances() -> Phase:
    """A tree as RightTrain makes them: four phones into two edge servers, these into the cloud, with CPU shares."""
    phones = [
        {"id": f"P{k}", "layers": (1, 2), "node": f"phone{k}", "cpu_share": 0.6, "into": f"E{k % 2}"} for k in range(4)
    ]
    edges = [{"id": f"E{k}", "layers": (3, 4), "node": f"edge{k}", "cpu_share": 0.7, "into": "C"} for k in range(2)]
    root = {"id": "C", "layers": (5, 7), "node": "cloud", "cpu_share": 0.5, "into": None}
    sources = [{"node": f"phone{k}", "samples": 16, "into": f"P{k}"} for k in range(4)]
    return Phase.model_validate({"sources": sources, "instances": [*phones, *edges, root]})


def short(samples: int) -> Phase:
    """One chain through phone, edge server and cloud, with a small batch."""
    chain = [("A", (1, 2), "phone0", "B"), ("B", (3, 4), "edge0", "C"), ("C", (5, 7), "cloud", None)]
    instances = [{"id": i, "layers": run, "node": node, "into": into} for i, run, node, into in chain]
    sources = [{"node": "phone0", "samples": samples, "into": "A"}]
    return Phase.model_validate({"sources": sources, "instances": instances})


def lossless(plan: Plan) -> Plan:
    """The plan without codecs, whose scales the estimate does not count."""
    (phase,) = plan.phases
    instances = tuple(instance.model_copy(update={"codec": "none"}) for instance in phase.instances)
    return plan.model_copy(update={"phases": (phase.model_copy(update={"instances": instances}),)})


def loaded_cases() -> Iterator[Case]:
    """Hybrid with five sources, a tree of seven instances, and short iterations."""
    network = load_network(MODEL)
    profile = profile_network(network, fleet(5.0), [])
    for bandwidth in (5.0, 20.0, 100.0):
        where = fleet(bandwidth)
        hybrid = lossless(pt.plan("hybrid", profile=profile, cluster=where, batch=80))
        yield MODEL, "hybrid, 5 sources", bandwidth, hybrid, profile, where
        for name, phase in (("7 instances", seven_instances()), ("short", short(4))):
            yield MODEL, name, bandwidth, Plan(model=MODEL, batch=phase.batch, phases=(phase,)), profile, where
    where = fleet(1000.0)
    for many in (4, 12):
        phase = short(many)
        yield MODEL, f"short, {many} samples", 1000.0, Plan(model=MODEL, batch=many, phases=(phase,)), profile, where


@contextmanager
def load(many: int) -> Iterator[None]:
    """So many processes that compute all the time, until this is over or its process is gone."""
    context = multiprocessing.get_context("spawn")
    busy = [context.Process(target=_compute_beside, args=(os.getpid(),), daemon=True) for _ in range(many)]
    for process in busy:
        process.start()
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.join()


def _compute_beside(parent: int) -> None:
    while os.getppid() == parent:
        until_s = time.monotonic() + 0.5
        while time.monotonic() < until_s:
            pass
