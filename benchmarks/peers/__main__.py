"""Palmette against DDP and torch.distributed.pipelining, on the same emulated cluster.

    python -m benchmarks.peers [--model lenet5] [--hardware paper] [--bandwidth 5] [--rounds 1]

Needs root on Linux (network namespaces). Prints JSON: a case for each network and cluster, in it the seconds of a step
of each contender, how they came about, and by how much Palmette's plans are faster.
"""

from __future__ import annotations

import os

# Gradients of tens of megabytes: without these, every backward waits for fresh memory. The same for all contenders.
os.environ.setdefault("MALLOC_MMAP_MAX_", "0")
os.environ.setdefault("MALLOC_TRIM_THRESHOLD_", str(2**34))

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from benchmarks.command import need_namespaces, parser, print_result
from benchmarks.peers.cases import Case, said
from benchmarks.peers.tasks import Lesson
from palmette.cost.estimate import evaluator
from palmette.measure.profiling import profile_network
from palmette.spec.cluster import Cluster
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

HARDWARE = {
    # That of benchmarks/fidelity: no node is much faster than one core of this machine.
    "common": ("raspberry-pi-4", "nuc-i3-7100u-1", "nuc-i3-7100u-4"),
    # HierTrain's own. Its cloud is faster than can be emulated here: who computes there takes longer than it should.
    "paper": ("raspberry-pi-3", "nuc-i3-7100u-4", "xeon-gtx-1080-ti"),
}


class Lab(NamedTuple):
    """How a network is compared. Time is stretched so far that this machine keeps up with the fastest node."""

    batch: int
    bandwidths_mbit: tuple[float, float]
    dilation: float


LABS = {
    "lenet5": Lab(48, (5.0, 50.0), 5.0),
    "alexnet?size=32&classes=10": Lab(24, (5.0, 100.0), 10.0),
}
ROUNDS = 3


def cluster(hardware: Sequence[str], bandwidth_mbit: float) -> Cluster:
    """Three tiers in a row, without latency: what goes through gloo's own collectives could not be delayed."""
    device, edge, cloud = hardware
    nodes = {
        "phone": {"tier": "device", "hardware": device, "source": {"samples": 1500}},
        "server": {"tier": "edge", "hardware": edge},
        "cloud": {"tier": "cloud", "hardware": cloud},
    }
    links = [{"between": list(pair), "bandwidth": f"{bandwidth_mbit} Mbit/s"} for pair in pairwise(nodes)]
    return fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))


def run_case(model: str, hardware: str, bandwidth_mbit: float, rounds: int) -> dict[str, Any]:
    """One case; the paper's hardware at more than 5 Mbit/s only by the clock."""
    said(f"{model} on {hardware} hardware at {bandwidth_mbit:g} Mbit/s")
    lab, where = LABS[model], cluster(HARDWARE[hardware], bandwidth_mbit)
    prices = evaluator(profile_network(load_network(model), where, []), where, "sgd")
    case = Case(Lesson(model, lab.batch), prices, lab.dilation)
    busy = [os.getloadavg()[0]]
    if hardware != "paper" or bandwidth_mbit <= 5:
        case.measure(rounds)
    found = case.record()
    busy.append(os.getloadavg()[0])
    said(f"  faster than {found['better_peer']}: { ({k: v['better peer'] for k, v in found['times_faster'].items()}) }")
    about = {"model": model, "hardware": HARDWARE[hardware], "bandwidth_mbit": bandwidth_mbit, "batch": lab.batch}
    return {**about, "dilation": lab.dilation, "load_average": busy, **found}


def main() -> None:
    """Run all cases and print what came out."""
    options = parser(__doc__, "LeNet-5 at 50 Mbit/s, by the event clock only")
    options.add_argument("--model", action="append", choices=list(LABS))
    options.add_argument("--hardware", action="append", choices=list(HARDWARE), help="default: common")
    options.add_argument("--bandwidth", action="append", type=float, help="Mbit/s of both links")
    options.add_argument("--rounds", type=int, help=f"turns of each contender, default {ROUNDS}; 0: by the clock only")
    given = options.parse_args()
    if given.quick:
        given.model, given.bandwidth = given.model or ["lenet5"], given.bandwidth or [50.0]
        given.rounds = given.rounds or 0
    rounds = ROUNDS if given.rounds is None else given.rounds
    if rounds:
        need_namespaces()
    torch.set_num_threads(1)
    began = time.monotonic()
    cases = [
        run_case(model, hardware, bandwidth, rounds)
        for hardware in given.hardware or ["common"]
        for model in given.model or LABS
        for bandwidth in given.bandwidth or LABS[model].bandwidths_mbit
    ]
    print_result({"seconds": time.monotonic() - began, "cases": cases})


if __name__ == "__main__":
    main()
