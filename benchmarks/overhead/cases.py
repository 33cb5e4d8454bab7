"""One node that trains a whole network by itself, and what a run of it needs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from palmette.cost.evaluate import Evaluator
from palmette.runtime.engines.local import ProcessCrew
from palmette.runtime.engines.testbed import NoTestbed
from palmette.runtime.options import Options
from palmette.runtime.training.job import Job
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.data import load_data
from palmette.zoo.models import Network, load_network
from palmette.zoo.recipes.objective import classification

OPTIONS = Options(lr=0.01)


class Case(NamedTuple):
    """A network of the zoo and a batch size."""

    model: str
    batch: int


def job(case: Case, folder: Path, iterations: int) -> Job:
    """A run of all layers on one node, as fast as it can."""
    network = load_network(case.model, seed=0)
    phase = validated(
        Phase,
        {
            "sources": [{"node": "here", "samples": case.batch, "into": "all"}],
            "instances": [{"id": "all", "layers": [1, len(network.layers)], "node": "here"}],
        },
    )
    return Job(
        plan=Plan(model=case.model, batch=case.batch, phases=(phase,)),
        evaluator=Evaluator(profile_of(network, ["here"]), _cluster()),
        network=network,
        data=load_data("digits", network.input_shape),
        objective=classification(network.classes),
        options=OPTIONS,
        folder=folder,
        samples_folder=folder / "samples",
        testbed=NoTestbed(),
        start_crew=ProcessCrew,
        iterations=iterations,
    )


def _cluster() -> Cluster:
    power = {"idle_w": 1.0, "busy_w": 2.0}
    nodes = {"here": {"tier": "device", "source": {"samples": 1500}, "power": power}}
    return validated(Cluster, {"nodes": nodes, "links": []})


def profile_of(network: Network, nodes: Iterable[str]) -> Profile:
    """The network's sizes as they are; its times do not matter where nothing is padded."""
    times = {name: [1e-6] * len(network.layers) for name in ("forward_s", "backward_s", "update_s")}
    layers = [
        {
            "name": layer.name,
            "parameter_bytes": float(sum(w.numel() * w.element_size() for w in layer.module.parameters())),
            "output_bytes": 4.0 * torch.Size(layer.output_shape).numel(),
        }
        for layer in network.layers
    ]
    fields = {"model": network.name, "input_bytes": 1.0, "layers": layers, "nodes": dict.fromkeys(nodes, times)}
    return validated(Profile, fields)
