"""A published plan as our profile, cluster and tree.

A machine with its tensor-parallel GPUs is a node that does not compute while it sends or receives. Each microbatch is a
branch; a stage goes forward and back in turns (``order: 1f1b``), and replicas average their gradients around a ring.
"""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.others.published import MODEL, Machine, Published
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile


class Measured(NamedTuple):
    """A plan and what was measured: seconds of an iteration, and the most bytes of a GPU, where they are known."""

    name: str
    phase: Phase
    profile: Profile
    cluster: Cluster
    gpus: dict[str, int]
    iteration_s: float | None
    peak_bytes: float | None


class Stage(NamedTuple):
    """Consecutive layers, and the node of each replica."""

    layers: tuple[int, int]
    nodes: list[str]


def measured_plan(path: Path, published: Published, reserved_bytes: float) -> Measured:
    """Read a plan."""
    plan = json.loads(path.read_text())
    machines: dict[str, Machine] = {}
    pipelines = [_stages(number, each, machines) for number, each in enumerate(plan["pipeline_list"])]
    phase = _phase(plan, pipelines)
    name = f"{path.parent.name}/{path.stem}"
    gpus = {node: machine.gpus for node, machine in machines.items()}
    return Measured(
        name,
        phase,
        _profile(pipelines, machines, published),
        _cluster(phase, machines, published, reserved_bytes),
        gpus,
        plan.get("real"),
        plan.get("max_mem"),
    )


def _stages(number: int, pipeline: dict[str, Any], machines: dict[str, Machine]) -> list[Stage]:
    """The stages of a pipeline; the machine of each of their nodes is noted."""
    found = []
    for s, (layers, replicas) in enumerate(zip(pipeline["layers_per_stage"], pipeline["tmp_per_stage"], strict=True)):
        nodes = []
        for r, (used, degree) in enumerate(replicas):
            kind, _, zone = used[0]
            nodes.append(f"pipeline{number}-stage{s}-replica{r}")
            machines[nodes[-1]] = Machine(kind, degree, zone)
        found.append(Stage((min(layers) + 1, max(layers) + 1), nodes))
    return found


def _phase(plan: dict[str, Any], pipelines: list[list[Stage]]) -> Phase:
    """Every microbatch as a branch; it goes to the replicas of each stage in turns."""
    size = plan["mbs"]
    branches = sum(len(stages[0].nodes) for stages in pipelines)
    rounds = math.ceil(plan["gbs"] / (size * branches))
    sources, instances = [], []
    for number, stages in enumerate(pipelines):
        for m in range(rounds * len(stages[0].nodes)):
            places = [(f"{number}-{s}-{m}", each.nodes[m % len(each.nodes)]) for s, each in enumerate(stages)]
            sources.append({"node": places[0][1], "samples": size, "into": places[0][0]})
            for s, (name, node) in enumerate(places):
                into = places[s + 1][0] if s + 1 < len(places) else None
                instances.append({"id": name, "layers": stages[s].layers, "node": node, "into": into})
    return Phase.model_validate({"order": "1f1b", "averaging": "ring", "sources": sources, "instances": instances})


def _profile(pipelines: list[list[Stage]], machines: dict[str, Machine], published: Published) -> Profile:
    sharing = [1] * published.depth  # GPUs that share each layer
    for stage in itertools.chain(*pipelines):
        for number in range(stage.layers[0], stage.layers[1] + 1):
            sharing[number - 1] = machines[stage.nodes[0]].gpus
    times = {machine: published.times(machine) for machine in set(machines.values())}
    layers = [{"name": f"layer{k}", **published.layer(k, many)} for k, many in enumerate(sharing)]
    tie = {
        "name": "embedding",
        "parameter_bytes": min(published.embedding_bytes(many) for many in (sharing[0], sharing[-1])),
        "layers": [1, published.depth],
    }
    return Profile.model_validate(
        {
            "model": MODEL,
            "input_bytes": 1.0,
            "layers": layers,
            "ties": [tie],
            "nodes": {node: times[machine] for node, machine in machines.items()},
        }
    )


def _cluster(phase: Phase, machines: dict[str, Machine], published: Published, reserved_bytes: float) -> Cluster:
    firsts = {source.node for source in phase.sources}
    nodes: dict[str, Any] = {}
    for name, machine in machines.items():
        nodes[name] = {"tier": "cloud", "blocking": True, "reserved_bytes": reserved_bytes * machine.gpus}
        if name in firsts:
            nodes[name]["source"] = {"samples": 10**6}
    links, stages = list[dict[str, Any]](), {each.node: each.layers for each in phase.instances}
    for a, b in itertools.combinations(machines, 2):
        alike = stages[a] == stages[b]  # such replicas only add up gradients, each GPU those of its part
        rates = (published.rates if alike else published.gathered_rates)(machines[a], machines[b])
        by_size = [{"size_bytes": size, "bandwidth_bps": rate} for size, rate in rates]
        links.append({"between": [a, b], "bandwidth_bps": max(rate for _, rate in rates), "by_size": by_size})
    return Cluster.model_validate({"nodes": nodes, "links": links})
