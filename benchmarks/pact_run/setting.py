"""The setting: three sets of nodes as in PACT's Section VI-B, a network with two smaller versions, target and deadline.

Gold is fast and hungry and owns most of the data, silver is slower and thriftier and owns less, bronze is slow and
thrifty and owns little. Each version of the network belongs on one of them, so that a smaller model means other nodes.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import palmette as pt
from benchmarks.pact_run.data import SAMPLES
from palmette.plan.core.strategy import Task
from palmette.plan.pact.phases import trainable_phases
from palmette.spec.cluster import Cluster
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.plan import Phase
from palmette.spec.problem import Pair
from palmette.spec.profile import Profile, Table, Times

MODEL = "benchmarks.pact_run.network:vgg"
PAIRS: tuple[Pair, ...] = (("0", "gold"), ("0.5", "silver"), ("0.6", "bronze"))
TARGET, BATCH, LR = 0.1, 32, 5e-4
DEADLINE_EPOCHS = 36.0
"""The deadline, in epochs of the whole network on gold."""
RECORDED = Path(__file__).with_name("profile.json")
"""The network measured once: layer times as ``palmette profile`` has them, prunings in processor time."""
SLOWER = {"cloud": 5.0, "server": 10.0, "gateway": 56.0}
"""Than this machine, one thread."""
CLUSTER = f"""\
nodes:
  cloud:
    {{tier: cloud, host: local, power: {{idle: 90 W, busy: 250 W}},
     source: {{samples: {SAMPLES["gold"]}, data: "benchmarks.pact_run.data:gold"}}}}
  server:
    {{tier: edge, host: local, power: {{idle: 30 W, busy: 90 W}},
     source: {{samples: {SAMPLES["silver"]}, data: "benchmarks.pact_run.data:silver"}}}}
  gateway:
    {{tier: device, host: local, power: {{idle: 3 W, busy: 8 W}},
     source: {{samples: {SAMPLES["bronze"]}, data: "benchmarks.pact_run.data:bronze"}}}}
links:
  - {{between: [cloud, server], bandwidth: 50 Mbit/s, latency: 10 ms, energy: 20 nJ/bit}}
  - {{between: [server, gateway], bandwidth: 20 Mbit/s, latency: 3 ms, energy: 60 nJ/bit}}
sets: {{gold: [cloud], silver: [server], bronze: [gateway]}}
"""


def cluster() -> Cluster:
    """The nodes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(CLUSTER)
        return pt.load_cluster(path)


def task(*, recorded: bool = False) -> Task:
    """What is to be planned, with the network measured on this machine now, or once before."""
    nodes = cluster()
    variants = [float(model) for model, _ in PAIRS[1:]]
    measured = pt.load_profile(RECORDED) if recorded else pt.profile(MODEL, cluster=nodes, variants=variants)
    made = Task(profile=emulated(measured), cluster=nodes, batch=BATCH, optimizer="adam")
    deadline_s = round(DEADLINE_EPOCHS * made.evaluator.price(trainable_phases(made)[PAIRS[0]]).epoch.time_s, 2)
    return replace(made, goal=Goal(weights=parse_weights("energy"), deadline_s=deadline_s, loss=TARGET))


def phases(task: Task) -> dict[Pair, Phase]:
    """The pairs of model and nodes that may be trained."""
    found = trainable_phases(task)
    return {pair: found[pair] for pair in PAIRS}


def emulated(measured: Profile) -> Profile:
    """The profile of this machine, with nodes that are slower by known factors."""

    def slower(found: Table) -> dict[str, Any]:
        return {"nodes": {name: _slowed(times, SLOWER[name]) for name, times in found.nodes.items()}}

    variants = {key: each.model_copy(update=slower(each)) for key, each in measured.variants.items()}
    return measured.model_copy(update={**slower(measured), "variants": variants})


def _slowed(times: Times, factor: float) -> Times:
    arrays = {name: tuple(factor * s for s in array) for name, array in times if isinstance(array, tuple)}
    return times.model_copy(update=arrays | {"prune_s": times.prune_s and factor * times.prune_s})
