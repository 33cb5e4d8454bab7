"""Small random clusters and profiles, with ties, zeros and odd numbers on purpose."""

from __future__ import annotations

import itertools
import random

from palmette.spec.cluster import Cluster, Limits, Link, Node, Power, Source
from palmette.spec.profile import Layer, Profile, Times

TIERS = ("device", "edge", "cloud")


def random_world(
    draw: random.Random,
    *,
    nodes: int = 3,
    layers: int = 3,
    sources: int = 1,
    fixed: bool = True,
    memory: bool = False,
    private: bool = False,
    limits: bool = False,
) -> tuple[Profile, Cluster]:
    """A connected cluster, device first, and a profile for all its nodes. ``fixed``: latencies and calls' parts."""
    names = [f"n{k}" for k in range(nodes)]
    cluster = Cluster(
        nodes={
            name: Node(
                tier=TIERS[min(k, 2)] if nodes <= 3 else draw.choice(TIERS),
                memory_bytes=draw.choice([None, float(draw.randint(20, 200))]) if memory else None,
                power=Power(idle_w=draw.choice([1.0, 2.5]), busy_w=draw.choice([3.0, 8.0])),
                source=Source(samples=draw.randint(10, 90), private=private) if k < sources else None,
                limits=Limits(cpu_share=draw.choice([1.0, 0.5, 0.3])) if limits else Limits(),
            )
            for k, name in enumerate(names)
        },
        links=tuple(
            Link(
                between=(names[draw.randrange(k)], names[k]),
                **_rates(draw.choice([8.0, 40.0, round(draw.uniform(8, 400), 1)]), up_is_slower=k == 2),
                latency_s=draw.choice([0.0, 0.3, 2.0]) if fixed else 0.0,
                energy_j_per_bit=draw.choice([0.0, 0.01]),
            )
            for k in range(1, nodes)
        ),
    )
    return _profile(draw, names, layers, fixed), cluster


def _rates(bps: float, *, up_is_slower: bool) -> dict[str, float]:
    return {"up_bps": bps, "down_bps": 3 * bps} if up_is_slower else {"bandwidth_bps": bps}


def _profile(draw: random.Random, names: list[str], layers: int, fixed: bool) -> Profile:
    def seconds(scale: float) -> tuple[float, ...]:
        return tuple(draw.choice([0.0, 1.0, round(draw.random(), 2)]) * scale for _ in range(layers))

    def times() -> Times:
        speed = draw.choice([0.1, 1.0, 3.0])
        calls = [seconds(speed), seconds(speed)] if fixed and draw.random() < 0.7 else [None, None]
        return Times(
            forward_s=seconds(speed),
            backward_s=seconds(2 * speed),
            update_s=seconds(speed / 2),
            forward_call_s=calls[0],
            backward_call_s=calls[1],
        )

    sizes = [0.0, 1.0, 4.0, round(draw.uniform(0, 10), 1)]
    return Profile(
        model="random",
        input_bytes=draw.choice([1.0, 6.0, 20.0]),
        layers=tuple(
            Layer(name=f"l{k}", parameter_bytes=draw.choice(sizes), output_bytes=draw.choice(sizes))
            for k in range(layers)
        ),
        nodes={name: times() for name in names},
    )


def extreme_world(draw: random.Random) -> tuple[Profile, Cluster]:
    """Like ``random_world``, with the largest and the smallest numbers that a file may hold."""

    def number(least: float = 0.0) -> float:
        huge = (1e18, 281474976710655.0, 1e16 + 2, 10 ** draw.uniform(-20, 18))
        small = (1e-300, 5e-324, 2.3e-308)
        return max(least, draw.choice([0.0, 0.001, 1.0, draw.random(), draw.choice(huge), draw.choice(small)]))

    def several() -> tuple[float, ...]:
        return tuple(number() for _ in range(2))

    names = ["n0", "n1", "n2"]
    cluster = Cluster(
        nodes={
            name: Node(
                tier=tier,  # type: ignore[arg-type]
                memory_bytes=draw.choice([None, None, number(1.0)]),
                source=Source(samples=10) if name == "n0" else None,
                limits=Limits(cpu_share=draw.choice([1.0, 0.5, 1e-6])),
            )
            for name, tier in zip(names, TIERS, strict=True)
        },
        links=tuple(
            Link(between=(a, b), bandwidth_bps=number(1.0), latency_s=number()) for a, b in itertools.pairwise(names)
        ),
    )
    layers = tuple(
        Layer(name=f"l{k}", parameter_bytes=number(), output_bytes=number(), activation_bytes=number())
        for k in range(2)
    )
    others = ("prune_s", "decode_s", "coding_s", "source", "backward_input_s")
    of_layers = [field for field in Times.model_fields if field not in others]

    def times() -> Times:
        made = Times(**{field: several() for field in of_layers})
        first_s = tuple(map(min, several(), made.backward_s))
        return made.model_copy(update={"backward_input_s": draw.choice([None, first_s])})

    nodes = {name: times() for name in names}
    return Profile(model="extreme", input_bytes=number(1e-9), layers=layers, nodes=nodes), cluster
