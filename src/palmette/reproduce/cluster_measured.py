"""A case of Gu et al.'s for real: pre-training and all seven clusters on the testbed, a process a device.

CIFAR10 at 1 Gbit/s is the cheapest case. Every cluster trains until its slowest device has taken a few steps, and its
whole time follows from the measured mean step. A GTX 1050 is so much faster than one core that the testbed has to
stretch time far more than ten times; by how much stands in the record. Power is the catalogue's on the measured trace:
modelled, nothing is metered.
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
from palmette.runtime.job import Outcome
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Inputs, Plan
from palmette.spec.profile import Profile

CASES = (("CIFAR10", 1000.0),)
LENGTHS = Lengths(warmup=2, timed=6, counted=0)
SLOWEST_STEPS = 2.2
LEAST_STEPS = 8

Record = dict[str, Any]


def measured_cases(told: paper.Told) -> Record:
    """The cases, and what comes of them."""
    with tempfile.TemporaryDirectory(prefix="palmette-") as folder:
        cases = [_case(name, mbps, Path(folder), told) for name, mbps in CASES]
    return {"cases": cases, **paper.summary(cases)}


def _case(name: str, mbps: float, folder: Path, told: paper.Told) -> Record:
    cluster = paper.machines(mbps)
    wish = Pretraining(model=paper.MODELS[name], batch=paper.BATCH, steps=paper.STEPS, lengths=LENGTHS)
    pretrainer = Pretrainer(cluster, wish, folder / "pretrained", told, told)
    table = pretrainer.run()
    truth, dilations = {}, {}
    for members in paper.clusters():
        told(f"{name} at {mbps:g} Mbit/s on {', '.join(members)}")
        outcome = _trained(members, pretrainer.profile, mbps, folder / "run")
        truth[members] = _figures(members, outcome, table)
        dilations["+".join(members)] = outcome.dilation
    return paper.case(name, mbps, table, truth) | {"how": "measured", "dilation": dilations}


def _trained(members: paper.Devices, profile: Profile, mbps: float, folder: Path) -> Outcome:
    """A cluster trains for real."""
    cluster = paper.machines(mbps)
    phase = paper.forest(members, profile)
    price = evaluator(profile, cluster).price(phase)
    slowest_s = max(played.total_s for _, _, played in price.played)
    iterations = max(LEAST_STEPS, math.ceil(SLOWEST_STEPS * slowest_s / price.iteration_s))
    inputs = Inputs(cluster=cluster, profile=profile)
    plan = Plan(model=profile.model, batch=paper.BATCH, phases=(phase,), inputs=inputs)
    return Running(plan, Request(iterations=iterations), folder, None).run(lambda _: None, lambda _: None)


def _figures(members: paper.Devices, outcome: Outcome, table: Measurements) -> paper.Figures:
    """Time and power of the whole training, from what was measured of it."""
    assert outcome.iteration_s is not None, "it ran to its end"
    assert outcome.energy_j is not None, "the catalogue knows every machine's power"
    power_w = outcome.energy_j / outcome.node_seconds[members[0]]["whole"]
    build_s = min(table.devices[name].build_s for name in members)
    return paper.Figures(build_s + table.steps * outcome.iteration_s, power_w)
