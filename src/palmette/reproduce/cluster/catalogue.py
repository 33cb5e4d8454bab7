"""Gu et al.'s cases by the event clock, with layer times of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.measure.build_time import measure_build_time
from palmette.measure.communication_factors import StandaloneDevice
from palmette.measure.profiling import profile_network
from palmette.reproduce.cluster.paper import (
    BATCH,
    MACHINES,
    MBPS,
    MODELS,
    STEPS,
    ClusterCase,
    ClusterCost,
    Devices,
    clusters,
    forest,
    machines,
)
from palmette.reproduce.cluster.simulation import DeviceRate, device_rates
from palmette.reproduce.progress import Progress, silent
from palmette.zoo.models import load_network


class CatalogueCases:
    """Costs by the event clock, with layer times of the catalogue."""

    how = "simulated: the event clock with the catalogue's layer times; power modelled"

    def __init__(self, progress: Progress = silent) -> None:
        self._progress = progress

    def cases(self, name: str) -> Iterator[ClusterCase]:
        """A device alone takes what the plan's estimate says, and links are as fast as declared."""
        profile = profile_network(load_network(MODELS[name]), machines(MBPS[0]))
        built = measure_build_time(MODELS[name], None, BATCH)
        for mbps in MBPS:
            self._progress(f"{name} at {mbps:g} Mbit/s")
            prices = evaluator(profile, machines(mbps))
            alone = {device: declared(device, prices) for device in MACHINES}
            builds_s = {
                device: built.emulated_s(each.step_s, built.first_pass_s / built.pass_s * each.step_s)
                for device, each in alone.items()
            }
            paths = {pair: prices.route(*pair) for pair in permutations(MACHINES, 2)}
            found = {members: simulated_cost(members, prices, builds_s) for members in clusters()}
            weights = sum(layer.parameter_bytes for layer in profile.layers)
            yield ClusterCase(mbps, alone, builds_s, paths, weights, found, dict.fromkeys(found, "simulated"))


def declared(device: str, prices: Evaluator) -> StandaloneDevice:
    """A device alone, by the event clock and its declared power."""
    power = prices.cluster.nodes[device].power
    assert power is not None, "the catalogue knows every machine's"
    return StandaloneDevice(prices.price(forest((device,), prices.profile)).iteration_s, power.busy_w, power.idle_w)


def simulated_cost(members: Devices, prices: Evaluator, builds_s: dict[str, float]) -> ClusterCost:
    """Time and power of a cluster by the event clock."""
    if len(members) == 1:
        alone = declared(members[0], prices)
        return ClusterCost(builds_s[members[0]] + STEPS * alone.step_s, alone.power_w)
    found = device_rates(forest(members, prices.profile), prices)
    return ClusterCost(whole_s(found, builds_s), sum(each.power_w for each in found.values()))


def whole_s(found: dict[str, DeviceRate], builds_s: dict[str, float]) -> float:
    """Seconds in which devices of these rates take all steps, each from when its model is built."""
    low, high = 0.0, min(builds_s[name] + STEPS / each.rate for name, each in found.items())
    for _ in range(100):
        middle = (low + high) / 2
        taken = sum(max(0.0, middle - builds_s[name]) * each.rate for name, each in found.items())
        low, high = (middle, high) if taken < STEPS else (low, middle)
    return high
