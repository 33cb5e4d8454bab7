"""How replicas agree: two devices with private data behind a server, and a phase for each method."""

from __future__ import annotations

from typing import Any

from palmette.spec.cluster import Cluster
from palmette.spec.exchange import known_exchange
from palmette.spec.plan import Phase, Plan
from palmette.spec.sync import USUAL_OUTER
from palmette.zoo.hardware_defaults import fill_hardware_defaults

DEVICES = ("one", "two")
SAMPLES = 16
"""Of each device in an iteration."""
EVALUATED_EVERY = 50
"""Iterations of an epoch, after which the loss on held-out data is measured."""
CODECS = ("bf16", "int8", "topk:0.01", "lowrank:2")
_DILATION = {5.0: 10.0, 20.0: 20.0, 100.0: 30.0}
MOMENTA = (0.0, 0.5, 0.9)
"""Of the outer optimizer, beside the one that strategies take."""
_DILOCO = {"sync": "every", "every": 50, "outer": USUAL_OUTER.model_dump(), "server": "server"}


def methods() -> dict[str, dict[str, Any]]:
    """The fields of a phase under each method."""
    step: dict[str, Any] = {"meet": "server"}
    found = {"step": step, "step, overlap": {**step, "overlap": True}}
    found |= {f"step, {text}": {**step, **_coded(text)} for text in CODECS}
    found |= {f"every {k}": {"sync": "every", "every": k, "server": "server"} for k in (10, 50)}
    found["diloco 50"] = _DILOCO
    found["diloco 50, in turns"] = {**_DILOCO, "turns": {"fragments": 2, "delay": 5}}
    found |= {f"diloco 50, {text}": {**_DILOCO, **_coded(text)} for text in CODECS}
    found |= {f"diloco 50, momentum {each:g}": {**_DILOCO, "outer": {"momentum": each}} for each in MOMENTA}
    found["federated"] = {"sync": "epoch", "server": "server"}
    return found


def _coded(text: str) -> dict[str, Any]:
    return {"exchange": known_exchange(text).model_dump()}


def cluster(bandwidth_mbit: float, samples: int, *, private: bool = True) -> Cluster:
    """Two devices behind a server, each with its own half of the samples."""
    device = {"tier": "device", "hardware": "raspberry-pi-4", "source": {"samples": samples // 2, "private": private}}
    links = [{"between": [name, "server"], "bandwidth": f"{bandwidth_mbit:g} Mbit/s"} for name in DEVICES]
    nodes = {**dict.fromkeys(DEVICES, device), "server": {"tier": "edge", "hardware": "nuc-i3-7100u-1"}}
    return fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))


def open_cluster(bandwidth_mbit: float, samples: int, stored_bytes: int | None) -> Cluster:
    """The same, with data that may move, in samples of so many bytes."""
    found = cluster(bandwidth_mbit, samples, private=False)
    nodes = {
        name: node.model_copy(update={"source": node.source.model_copy(update={"sample_bytes": stored_bytes})})
        if node.source is not None and stored_bytes is not None
        else node
        for name, node in found.nodes.items()
    }
    return found.model_copy(update={"nodes": nodes})


def dilation(bandwidth_mbit: float) -> float:
    """How much slower iterations are timed than they are: enough that processes which wait for a core do not count."""
    return _DILATION.get(bandwidth_mbit, 10.0)


def plan(model: str, depth: int, fields: dict[str, Any]) -> Plan:
    """The whole network on each device."""
    epoch_samples = EVALUATED_EVERY * SAMPLES
    sources = [{"node": n, "samples": SAMPLES, "epoch_samples": epoch_samples, "into": n} for n in DEVICES]
    instances = [{"id": name, "layers": [1, depth], "node": name} for name in DEVICES]
    phase = Phase.model_validate({"sources": sources, "instances": instances, **fields})
    return Plan(model=model, batch=SAMPLES * len(DEVICES), phases=(phase,))
