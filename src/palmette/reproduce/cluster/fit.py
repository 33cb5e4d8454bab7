"""Which machines would make the figures of Gu et al. true: the inverse problem.

The paper prints neither the steps nor the watts of its three machines. Here each has the proportions between the five
networks that the catalogue predicts, and two unknowns: how many times slower than the catalogue's it is, and its watts
while it trains. Clusters cost what equations (2) to (7) say, with predicted factors; building a model takes no time.
What multiplies the seconds per step of the device with the parameter server is unknown, too: ``server``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import geometric_mean, mean
from typing import NamedTuple

from palmette.cost.estimate import evaluator
from palmette.measure.communication_factors import StandaloneDevice, factor_fields, predict_factors
from palmette.measure.profiling import profile_network
from palmette.plan.cluster import subsets
from palmette.plan.cluster.fleet import fleet_of
from palmette.reproduce.cluster.catalogue import declared
from palmette.reproduce.cluster.claims import (
    AT_10,
    AT_100,
    GAIN_BY_GOAL,
    OVERHEAD,
    OVERHEAD_CLAIM,
    SLOWER_CLAIM,
    gain_claim,
)
from palmette.reproduce.cluster.paper import (
    BATCH,
    MACHINES,
    MBPS,
    MODELS,
    PRETRAINED_STEPS,
    STEPS,
    ClusterCost,
    beside_desktop,
    machines,
)
from palmette.reproduce.inverse import InverseProblem, Outcome, Outcomes, Values
from palmette.spec.measurements import Measurements
from palmette.zoo.models import load_network

BOUNDS = {
    "desktop_slower": (0.1, 1000.0),
    "jtx2_slower": (0.1, 1000.0),
    "jtx1_slower": (0.1, 1000.0),
    "desktop_w": (80.0, 250.0),
    "jtx2_w": (5.0, 20.0),
    "jtx1_w": (5.0, 20.0),
    "server": (1.0, 10.0),
}
CLOSE = 0.05  # gains this close, in the unit of a whole, are the same


class NetworkOnMachines(NamedTuple):
    """The catalogue's devices with a network, each alone, and the bytes of its weights."""

    alone: dict[str, StandaloneDevice]
    parameter_bytes: float


def problem() -> InverseProblem:
    """The claims over the machines and what the server costs."""
    return InverseProblem(BOUNDS, outcomes, samples=1024, generations=60)


def outcomes(values: Values) -> Outcomes:
    """Figs. 2, 6 and 7."""
    tables = {(name, mbps): _table(name, mbps, values) for name in MODELS for mbps in MBPS}
    costs = {case: _costs(table) for case, table in tables.items()}
    found = {gain_claim(goal): _gain(goal, said, list(costs.values())) for goal, said in GAIN_BY_GOAL.items()}
    return found | {SLOWER_CLAIM: _slower(tables), OVERHEAD_CLAIM: _overhead(tables, costs)}


def _gain(goal: str, said: float, costs: list[list[ClusterCost]]) -> Outcome:
    """How far the best cluster is ahead of the second best, on average."""
    ranked = [sorted(each.of(goal) for each in case) for case in costs]
    ahead = mean(1 - best / second for best, second, *_ in ranked)
    return Outcome(f"{ahead:.1%}", max(0.0, abs(ahead - said) - CLOSE))


def _slower(tables: Mapping[tuple[str, float], Measurements]) -> Outcome:
    """How a step of the JTX2 grows as the network slows down, on average over the networks."""
    fast, middle, slow = (
        geometric_mean(beside_desktop(tables[name, mbps], "jtx2").time_s for name in MODELS) for mbps in MBPS
    )
    low, high = AT_100
    off = max(0.0, low - middle / fast, middle / fast - high, AT_10 - slow / fast)
    return Outcome(f"{middle / fast:.1f} and {slow / fast:.0f} times", off / AT_10)


def _overhead(
    tables: Mapping[tuple[str, float], Measurements], costs: Mapping[tuple[str, float], list[ClusterCost]]
) -> Outcome:
    """What the slowest device's pre-training adds to the training by the fastest cluster."""
    added = []
    for name in MODELS:
        slowest_s = {m: max(device.step_s for device in tables[name, m].devices.values()) for m in MBPS}
        best_s = {m: min(each.time_s for each in costs[name, m]) for m in MBPS}
        added.append(mean(PRETRAINED_STEPS * (slowest_s[m] / best_s[m] - 1 / STEPS) for m in MBPS))
    return Outcome(f"{min(added):.2%} to {max(added):.2%}", max(0.0, max(added) - OVERHEAD[1]))


def _table(name: str, mbps: float, values: Values) -> Measurements:
    """What a pre-training of these machines would have written."""
    known = _known(name)
    alone = {device: _scaled(device, each, values) for device, each in known.alone.items()}
    fastest = min(alone, key=lambda device: alone[device].step_s)
    devices = {}
    for device, each in alone.items():
        faster = [other for other, one in alone.items() if other != device and one.step_s <= each.step_s]
        factors = predict_factors(each, known.parameter_bytes, mbps * 1e6, 0.0)
        fields = factor_fields(dict.fromkeys(faster, factors), fastest)
        fields["with_server"] = {"time_alpha": values["server"]}
        devices[device] = {"step_s": each.step_s, "build_s": 0.0, "power_w": each.power_w} | fields
    return Measurements.model_validate({"model": name, "batch": BATCH, "steps": STEPS, "devices": devices})


def _scaled(device: str, each: StandaloneDevice, values: Values) -> StandaloneDevice:
    watts = values[f"{device}_w"]
    idle_w = None if each.idle_w is None else each.idle_w * watts / each.power_w
    return StandaloneDevice(each.step_s * values[f"{device}_slower"], watts, idle_w)


def _costs(table: Measurements) -> list[ClusterCost]:
    """All seven clusters."""
    found = subsets.time_power(fleet_of(table), subsets.all_clusters(len(table.devices)))
    return [ClusterCost(*map(float, each)) for each in zip(found.time_s, found.power_w, strict=True)]


@cache
def _known(name: str) -> NetworkOnMachines:
    cluster = machines(MBPS[0])
    profile = profile_network(load_network(MODELS[name]), cluster)
    prices = evaluator(profile, cluster)
    alone = {device: declared(device, prices) for device in MACHINES}
    return NetworkOnMachines(alone, sum(layer.parameter_bytes for layer in profile.layers))
