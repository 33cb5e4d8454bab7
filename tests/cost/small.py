"""Small clusters, profiles and phases with round numbers: a link of 8 bit/s carries a byte a second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palmette.cost.evaluate import Evaluator, Price
from palmette.spec.cluster import Cluster
from palmette.spec.files import validated
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile

Fields = dict[str, Any]
BYTE_A_SECOND = 8.0


def node(
    samples: int | None = None, *, private: bool | str = False, power: tuple[float, ...] = (), **more: Any
) -> Fields:
    """A node; with ``samples`` it owns a source, ``power`` is (idle, busy[, exponent])."""
    fields: Fields = {"tier": "device", **more}
    if samples is not None:
        fields["source"] = {"samples": samples, "private": private}
    if power:
        fields["power"] = dict(zip(("idle_w", "busy_w", "exponent"), power, strict=False))
    return fields


def link(a: str, b: str, bps: float = BYTE_A_SECOND, **more: Any) -> Fields:
    return {"between": [a, b], "bandwidth_bps": bps, **more}


def cluster(*links: Fields, **nodes: Fields) -> Cluster:
    return validated(Cluster, {"nodes": nodes, "links": links})


def times(layers: int, forward: float = 1.0, backward: float = 2.0, update: float = 0.5, **more: Any) -> Fields:
    """The same seconds for each layer."""
    arrays = {"forward_s": forward, "backward_s": backward, "update_s": update, **more}
    return {name: [seconds] * layers for name, seconds in arrays.items()}


def profile(layers: Sequence[tuple[float, ...]], input_bytes: float = 1.0, **nodes: Fields) -> Profile:
    """A profile of layers (parameter_bytes, output_bytes[, activation_bytes])."""
    names = ("parameter_bytes", "output_bytes", "activation_bytes")
    listed = [{"name": f"layer{k}", **dict(zip(names, sizes, strict=False))} for k, sizes in enumerate(layers, 1)]
    return validated(Profile, {"model": "tiny", "input_bytes": input_bytes, "layers": listed, "nodes": nodes})


def source(at: str, samples: int, into: str, **more: Any) -> Fields:
    return {"node": at, "samples": samples, "into": into, **more}


def instance(name: str, first: int, last: int, at: str, into: str | None = None, **more: Any) -> Fields:
    return {"id": name, "layers": [first, last], "node": at, "into": into, **more}


def phase(*parts: Fields, **more: Any) -> Phase:
    """A phase of sources and instances, told apart by their fields."""
    sources = [part for part in parts if "samples" in part]
    instances = [part for part in parts if "id" in part]
    return validated(Phase, {"sources": sources, "instances": instances, **more})


def plan(*phases: Phase, batch: int | None = None) -> Plan:
    return Plan(model="tiny", batch=phases[0].batch if batch is None else batch, phases=phases)


def price(cluster: Cluster, profile: Profile, phase: Phase) -> Price:
    return Evaluator(profile, cluster).price(phase)


def timetable(price: Price) -> dict[tuple[str, str], tuple[float, float]]:
    """When each operation starts and ends, by what it does and the id of its instance."""
    ((phase, made, played),) = price.played
    return {
        (step.kind.value, phase.instances[step.instance].id): (start, end)
        for step, start, end in zip(made.steps, played.start_s, played.end_s, strict=True)
    }
