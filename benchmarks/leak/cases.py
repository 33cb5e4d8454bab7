"""LeNet-5 on three nodes, as HierTrain lays it out."""

from __future__ import annotations

from pathlib import Path

from benchmarks.overhead.cases import profile_of
from palmette.cost.evaluate import Evaluator
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.engines.testbed import NoTestbed
from palmette.runtime.options import Options
from palmette.runtime.training.job import Job
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase, Plan
from palmette.zoo.data import load_data
from palmette.zoo.models import load_network
from palmette.zoo.recipes.objective import classification

NODES = ("phone", "server", "cloud")
TREE = {
    "sources": [
        {"node": "phone", "samples": 12, "into": "S"},
        {"node": "phone", "samples": 8, "into": "L"},
        {"node": "phone", "samples": 12, "into": "O1"},
    ],
    "instances": [
        {"id": "S", "layers": [1, 2], "node": "phone", "into": "O2"},
        {"id": "L", "layers": [1, 4], "node": "server", "into": "O3"},
        {"id": "O1", "layers": [1, 2], "node": "cloud", "into": "O2"},
        {"id": "O2", "layers": [3, 4], "node": "cloud", "into": "O3"},
        {"id": "O3", "layers": [5, 7], "node": "cloud"},
    ],
}


def job(folder: Path, iterations: int) -> Job:
    """A run as fast as it can, with an optimizer that keeps something."""
    network = load_network("lenet5", seed=0)
    phase = validated(Phase, TREE)
    return Job(
        plan=Plan(model="lenet5", batch=phase.batch, phases=(phase,)),
        evaluator=Evaluator(profile_of(network, NODES), _cluster()),
        network=network,
        data=load_data("digits", network.input_shape),
        objective=classification(network.classes),
        options=Options(optimizer="adam", lr=0.001),
        folder=folder,
        samples_folder=folder / "samples",
        testbed=NoTestbed(),
        start_crew=ProcessCrew,
        iterations=iterations,
    )


def _cluster() -> Cluster:
    nodes = {name: {"tier": "edge", "source": {"samples": 1500}} for name in NODES}
    links = [{"between": pair, "bandwidth_bps": 1e9} for pair in (NODES[:2], NODES[1:])]
    return validated(Cluster, {"nodes": nodes, "links": links})
