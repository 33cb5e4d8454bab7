"""Random forests of instances on random clusters, with ties, zeros and odd numbers on purpose."""

from __future__ import annotations

import random
from typing import Any

from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile

Fields = dict[str, Any]


def random_case(seed: int) -> tuple[Phase, Profile, Cluster]:
    """A phase with the profile and the cluster that it is for."""
    draw = random.Random(seed)
    names = [f"n{k}" for k in range(draw.randint(1, 5))]
    layers = draw.randint(1, 8)
    cluster = random_cluster(draw, names)
    phase = random_phase(draw, cluster, layers)
    profile = validated(Profile, random_profile(draw, names, layers))
    meet = draw.choice(names) if draw.random() < 0.4 else None
    return phase.model_copy(update={"meet": meet}), profile, cluster


def with_batch_norm(case: tuple[Phase, Profile, Cluster], seed: int) -> tuple[Phase, Profile, Cluster]:
    """The same with batch norms in some layers, whose parts share their statistics."""
    draw = random.Random(seed)
    phase, profile, cluster = case
    layers = [
        layer.model_copy(update={"batch_norm_channels": tuple(draw.choices([1, 3, 8], k=draw.choice([0, 0, 1, 2, 3])))})
        for layer in profile.layers
    ]
    return (
        phase.model_copy(update={"batch_norm": "whole"}),
        profile.model_copy(update={"layers": tuple(layers)}),
        cluster,
    )


def with_recompute(case: tuple[Phase, Profile, Cluster], seed: int) -> tuple[Phase, Profile, Cluster]:
    """The same with some instances that recompute, and layers that keep more than their outputs."""
    draw = random.Random(seed)
    phase, profile, cluster = case
    instances = [each.model_copy(update={"recompute": draw.random() < 0.7}) for each in phase.instances]
    layers = [
        layer.model_copy(update={"activation_bytes": layer.output_bytes * draw.randint(1, 9)})
        for layer in profile.layers
    ]
    return (
        phase.model_copy(update={"instances": tuple(instances)}),
        profile.model_copy(update={"layers": tuple(layers)}),
        cluster,
    )


def random_cluster(draw: random.Random, names: list[str]) -> Cluster:
    """A connected cluster: a random tree of links and some more."""
    pairs = {(names[draw.randrange(k)], names[k]) for k in range(1, len(names))}
    pairs |= {(a, b) for k, a in enumerate(names) for b in names[k + 1 :] if draw.random() < 0.3}
    links = [random_link(draw, pair) for pair in sorted(pairs)]
    draw.shuffle(links)
    return validated(Cluster, {"nodes": {name: random_node(draw) for name in names}, "links": links})


def random_link(draw: random.Random, pair: tuple[str, str]) -> Fields:
    between = draw.sample(pair, 2)
    bps = draw.choice([8.0, 16.0, 24.0, round(draw.uniform(1, 100), 3), round(10 ** draw.uniform(0, 6), 2)])
    found: Fields = {
        "between": between,
        "latency_s": draw.choice([0.0, 0.0, 0.5, round(draw.random(), 3)]),
        "energy_j_per_bit": draw.choice([0.0, 0.25, round(draw.random(), 3)]),
        "duplex": draw.choice(["full", "half"]),
    }
    if between > list(pair) and found["duplex"] == "full":
        return found | {"up_bps": bps, "down_bps": 2.5 * bps}
    return found | {"bandwidth_bps": bps}


def random_node(draw: random.Random) -> Fields:
    idle = round(draw.uniform(0, 5), 2)
    power = {"idle_w": idle, "busy_w": idle + draw.choice([0.0, 4.0]), "exponent": draw.choice([1.0, 2.0, 0.5, 3.0])}
    return {
        "tier": draw.choice(["device", "edge", "cloud"]),
        "power": None if draw.random() < 0.05 else power,
        "source": {"samples": 100},
        "limits": {"cpu_share": draw.choice([1.0, 1.0, 0.6])},
    }


def random_profile(draw: random.Random, names: list[str], layers: int) -> Fields:
    def seconds() -> list[float]:
        style = draw.choice(["round", "round", "any", "zero"])
        pick = {"round": lambda: float(draw.randint(0, 3)), "any": lambda: round(draw.random(), 4), "zero": lambda: 0.0}
        return [pick[style]() for _ in range(layers)]

    arrays = ["forward_s", "backward_s", "update_s"]
    fixed = ["forward_call_s", "backward_call_s"]
    sizes = [0.0, 1.0, 3.0, 10.0, 33.5]
    return {
        "model": "random",
        "input_bytes": draw.choice([1.0, 7.0, 20.5]),
        "layers": [
            {
                "name": f"l{k}",
                "parameter_bytes": draw.choice(sizes),
                "output_bytes": draw.choice(sizes),
                "output_channels": (None, 1, 4)[k % 3],
            }
            for k in range(layers)
        ],
        "nodes": {
            name: {array: seconds() for array in arrays + (fixed if draw.random() < 0.5 else [])} for name in names
        },
    }


def random_phase(draw: random.Random, cluster: Cluster, layers: int) -> Phase:
    """One to three trees, each grown from its root down to sources, listed in any order."""
    sources: list[Fields] = []
    instances: list[Fields] = []

    def grow(last: int, into: str | None) -> None:
        first = 1 if len(instances) > 6 else draw.randint(1, last)
        at = draw.choice(list(cluster.nodes))
        share = draw.choice([1.0, 1.0, 0.5, 0.5, 0.3, 0.1, round(draw.uniform(0.05, 1), 2)])
        instance = {
            "id": f"i{len(instances)}",
            "layers": [first, last],
            "node": at,
            "cpu_share": min(share, cluster.nodes[at].limits.cpu_share),
            "into": into,
            "codec": draw.choice(["none", "none", "int8"]),
        }
        instances.append(instance)
        for _ in range(draw.choice([1, 1, 2, 3])):
            if first > 1:
                grow(first - 1, instance["id"])
            else:
                node = at if draw.random() < 0.3 else draw.choice(list(cluster.nodes))
                sources.append({"node": node, "samples": draw.randint(1, 5), "into": instance["id"]})

    for _ in range(draw.choice([1, 1, 2, 3])):
        grow(layers, None)
    draw.shuffle(instances)
    draw.shuffle(sources)
    return validated(Phase, {"sources": sources, "instances": instances})
