"""What adding gradients up on their node brings, as JSON: ``python -m benchmarks.exchange``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import palmette as pt
from benchmarks.command import parser, print_result
from benchmarks.exchange.alone import each_alone
from benchmarks.planner import cases
from benchmarks.righttrain import cases as righttrain_cases
from palmette.cost.evaluate import Evaluator
from palmette.cost.operations import iteration
from palmette.cost.steps import Iteration, Kind
from palmette.spec.cluster import Cluster, Link, Node, Source
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance

Case = tuple[str, Phase, Profile, Cluster]


def pipelines(micro_batches: int = 64) -> Case:
    """Two replicas of a pipeline of two stages."""
    names = ["a1", "a2", "b1", "b2"]
    profile = cases.network(dict.fromkeys(names, "cloud"), 8)
    nodes = {name: Node(tier="cloud", source=Source(samples=1000) if name[1] == "1" else None) for name in names}
    pairs = [("a1", "a2"), ("b1", "b2"), ("a1", "b1"), ("a2", "b2")]
    links = tuple(Link(between=pair, bandwidth_bps=1e9, latency_s=1e-4) for pair in pairs)
    lanes = [(side, k) for side in "ab" for k in range(micro_batches)]
    first = [Instance(id=f"{s}1-{k}", layers=(1, 4), node=f"{s}1", into=f"{s}2-{k}") for s, k in lanes]
    last = [Instance(id=f"{s}2-{k}", layers=(5, 8), node=f"{s}2") for s, k in lanes]
    feeds = [Feed(node=f"{s}1", samples=1, into=f"{s}1-{k}") for s, k in lanes]
    phase = Phase(sources=tuple(feeds), instances=(*first, *last))
    return f"{micro_batches} micro-batches", phase, profile, Cluster(nodes=nodes, links=links)


def in_lanes(phase: Phase, lanes: int) -> Phase:
    """The phase with every instance in several micro-batches."""
    instances = [
        each.model_copy(update={"id": f"{each.id}.{k}", "into": each.into and f"{each.into}.{k}"})
        for k in range(lanes)
        for each in phase.instances
    ]
    shares = [
        (feed, k, (feed.samples + k) // lanes) for k in range(lanes) for feed in phase.sources if feed.samples >= lanes
    ]
    kept = {f"{feed.into}.{k}" for feed, k, many in shares if many}
    sources = [
        feed.model_copy(update={"samples": many, "into": f"{feed.into}.{k}"}) for feed, k, many in shares if many
    ]
    while True:  # an instance that nothing feeds any more goes
        fed = {feed.into for feed in sources} | {each.into for each in instances if each.id in kept}
        if fed - {None} <= kept:
            break
        kept |= fed - {None}
    return phase.model_copy(
        update={"sources": tuple(sources), "instances": tuple(each for each in instances if each.id in kept)}
    )


def private(cluster: Cluster) -> Cluster:
    """The cluster with all samples kept where they are, so that every owner holds the first layer."""
    nodes = {
        name: node.model_copy(update={"source": node.source and node.source.model_copy(update={"private": True})})
        for name, node in cluster.nodes.items()
    }
    return cluster.model_copy(update={"nodes": nodes})


def fleets() -> Iterator[Case]:
    for lanes in (1, 4):
        profile, cluster = cases.fleet(40)
        plan = pt.plan("hybrid", profile=profile, cluster=private(cluster), batch=640)
        yield f"private fleet, {lanes} micro-batches", in_lanes(plan.phases[0], lanes), profile, cluster


def righttrain() -> Iterator[Case]:
    profile, cluster = righttrain_cases.fleet(12, 6, 8, seed=0)
    goal = Goal(weights=parse_weights("energy"), loss=0.3, deadline_s=3e4)
    curve = righttrain_cases.CURVE.model_copy(update={"data_exponent": 1.5})  # it takes many sources
    for name, each in {"RightTrain": cluster, "RightTrain, private": private(cluster)}.items():
        plan = pt.plan("righttrain", profile=profile, cluster=each, batch=96, goal=goal, learning=curve)
        yield name, plan.phases[0], profile, each


def figures(phase: Phase, profile: Profile, cluster: Cluster) -> dict[str, Any]:
    prices = Evaluator(profile, cluster)
    now = iteration(phase, prices.sizes(phase.pruning), prices.routes)
    ways = {"added_up": now, "each_alone": each_alone(phase, prices)}
    found = {name: {"iteration_s": prices.play(phase, made).total_s, **exchanged(made)} for name, made in ways.items()}
    factor = found["each_alone"]["iteration_s"] / found["added_up"]["iteration_s"]
    return {"instances": len(phase.instances), **found, "times_as_fast": round(factor, 3)}


def exchanged(made: Iteration) -> dict[str, float]:
    sizes = [
        size for step, size in zip(made.steps, made.size_bytes, strict=True) if step.kind in (Kind.PUSH, Kind.PULL)
    ]
    return {"messages": len(sizes), "exchanged_bytes": sum(sizes)}


def main() -> None:
    """Print all figures."""
    quick = parser(__doc__, "the pipelines only, with 16 micro-batches").parse_args().quick
    every = [pipelines(16)] if quick else [pipelines(), *fleets(), *righttrain()]
    print_result({name: figures(phase, profile, cluster) for name, phase, profile, cluster in every})


if __name__ == "__main__":
    main()
