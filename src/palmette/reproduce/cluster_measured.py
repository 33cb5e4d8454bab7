"""A few of Gu et al.'s cases for real: pre-training and all seven clusters on the testbed, a process a device.

Time is stretched at most ten times; only networks that this machine trains fast enough for that are taken. Each
cluster trains until its slowest device has taken a few steps, and its whole time follows from the measured mean step.
Power is the catalogue's on the measured trace: modelled, on this machine there is nothing to meter.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from palmette.control.pretrain import Pretrainer, Pretraining
from palmette.control.run import Request, Running
from palmette.control.stopwatch import Lengths
from palmette.cost.estimate import evaluator
from palmette.reproduce import cluster as paper
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Inputs, Plan
from palmette.spec.profile import Profile

CASES = (("CIFAR10", 1000.0), ("CIFAR10", 100.0))
LENGTHS = Lengths(warmup=5, timed=15, counted=0)
MOST_DILATION = 10.0
SLOWEST_STEPS = 2.5

Record = dict[str, Any]


def measured_cases(told: paper.Told) -> Record:
    """The cases, and what comes of them."""
    with tempfile.TemporaryDirectory(prefix="palmette-") as folder:
        cases = [_case(name, mbps, Path(folder), told) for name, mbps in CASES]
    return {"cases": cases, **paper.summary(cases)}


def _case(name: str, mbps: float, folder: Path, told: paper.Told) -> Record:
    cluster = paper.machines(mbps)
    wish = Pretraining(
        model=paper.MODELS[name], batch=paper.BATCH, steps=paper.STEPS, lengths=LENGTHS, dilation=MOST_DILATION
    )
    pretrainer = Pretrainer(cluster, wish, folder / "pretrained", told, told)
    table = pretrainer.run()
    truth = {}
    for members in paper.clusters():
        told(f"{name} at {mbps:g} Mbit/s on {', '.join(members)}")
        truth[members] = _trained(members, pretrainer.profile, mbps, table, folder / "run")
    return paper.case(name, mbps, table, truth) | {"how": "measured", "dilation": MOST_DILATION}


def _trained(members: paper.Devices, profile: Profile, mbps: float, table: Measurements, folder: Path) -> paper.Figures:
    """Time and power of a cluster that trains for real."""
    cluster = paper.machines(mbps)
    phase = paper.forest(members, profile)
    price = evaluator(profile, cluster).price(phase)
    slowest_s = max(played.total_s for _, _, played in price.played)
    iterations = max(10, math.ceil(SLOWEST_STEPS * slowest_s / price.iteration_s))
    plan = Plan(
        model=profile.model, batch=paper.BATCH, phases=(phase,), inputs=Inputs(cluster=cluster, profile=profile)
    )
    request = Request(iterations=iterations, dilation=MOST_DILATION)
    outcome = Running(plan, request, folder, None).run(lambda _: None, lambda _: None)
    assert outcome.iteration_s is not None, "it ran to its end"
    assert outcome.energy_j is not None, "the catalogue knows every machine's power"
    power_w = outcome.energy_j / outcome.node_seconds[members[0]]["whole"]
    build_s = min(table.devices[name].build_s for name in members)
    return paper.Figures(build_s + table.steps * outcome.iteration_s, power_w)
