"""Pre-training: every device trains the network alone for a short while, so that the best of them can be chosen.

Steps 1 to 3 of Gu et al. The weights of the device that is to have the parameter server are where the chosen cluster
continues, so that the steps of the pre-training count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from palmette.control.pretrain.device_runs import DeviceMeasurement, DeviceRuns
from palmette.control.pretrain.power import refuse_unpowered
from palmette.control.pretrain.progress import PretrainMeter, PretrainProgress
from palmette.control.pretrain.request import PretrainRequest
from palmette.control.run.data import COMMON, refuse_unfit
from palmette.control.run.engines import engine_of, refuse_open_network
from palmette.control.run.folder import owned
from palmette.control.run.request import Request
from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.errors import Infeasible, PalmetteError, RunError
from palmette.measure.bandwidth import MeasuredLink as MeasuredPath
from palmette.measure.bandwidth import measure_bandwidth
from palmette.measure.build_time import measure_build_time
from palmette.measure.communication_factors import (
    SERVER,
    CommunicationFactors,
    StandaloneDevice,
    factor_fields,
    fit_factors,
    predict_factors,
)
from palmette.measure.counters import absent_counters
from palmette.measure.host_power import host_meters
from palmette.measure.hosts import (
    measure_build_times_on_hosts,
    measure_times_on_hosts,
    prober_of,
    transfers_on_hosts,
)
from palmette.measure.profiling import profile_network
from palmette.runtime.engines.base import EngineSettings
from palmette.runtime.engines.probes import BuildTime
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.engines.testbed import Testbed
from palmette.spec.cluster import HERE, Cluster, Source
from palmette.spec.files import write_text
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile
from palmette.zoo.data import load_data
from palmette.zoo.freezing import matching_weights, refuse_all_frozen
from palmette.zoo.models import Network, load_network
from palmette.zoo.recipes.loading import recipe_name

Paths = Mapping[tuple[str, str], MeasuredPath]
"""Bandwidth and latency from one device to another."""
FactorsByServer = Mapping[str, CommunicationFactors]
"""A device's factors, by the device that has the parameter server."""


EMULATED_BUILD = "first step measured on the testbed; building measured on this machine, by the time of a step"


class Pretrainer:
    """Pre-trains a cluster; ``progress`` is told how far it is, ``warn`` what is left out."""

    def __init__(
        self,
        cluster: Cluster,
        request: PretrainRequest,
        folder: Path,
        progress: Callable[[PretrainProgress], None],
        warn: Callable[[str], None],
    ) -> None:
        self.request, self.folder, self._warn = request, folder, warn
        self._meter = PretrainMeter(progress)
        keys = None if request.keys is None else Path(request.keys)
        settings = EngineSettings(nodes=cluster.computing, listen=request.listen, keys=keys)
        engine = ENGINES[request.engine].engine(settings)
        refuse_open_network(request, engine.addresses)
        self._prober = prober_of(request.engine, cluster, listen=request.listen, keys=keys)
        network = load_network(request.model, request.input_shape, seed=request.options.seed)
        refuse_all_frozen(request.model, network.layers, matching_weights(network.layers, request.options.freeze))
        self.cluster = with_data(cluster, self._common_samples(cluster, network))
        meters = {} if self._prober is None else host_meters(self._prober, warn)
        refuse_unpowered(self.cluster, request, meters)
        self.profile = request.profile or self._measure_layers(network)
        self.parameter_bytes = sum(layer.parameter_bytes for layer in self.profile.layers)
        self._runs = DeviceRuns(request, self.cluster, self.profile, folder, meters)

    def _common_samples(self, cluster: Cluster, network: Network) -> int:
        """How many samples the data has that is not a node's own; 0 where every node names its own.

        Raises:
            InputError: it cannot be loaded, or does not fit the network.
        """
        named = [node.source is not None and node.source.data is not None for node in cluster.nodes.values()]
        if self.request.data is None and all(named):
            return 0
        data = load_data(self.request.data or recipe_name(self.request.model) or COMMON, network.input_shape)
        refuse_unfit(network, data)
        return len(data.train)

    def _measure_layers(self, network: Network) -> Profile:
        self._meter.say("layer times")
        asked = self.request
        if self._prober is None:
            return profile_network(network, self.cluster, progress=self._meter.layer)
        elsewhere = measure_times_on_hosts(self._prober, asked.model, self.cluster, asked.input_shape)
        return profile_network(network, self.cluster, progress=self._meter.layer, elsewhere=elsewhere)

    def run(self) -> Measurements:
        """Measure all devices.

        Raises:
            InputError: another process is using the folder.
            Infeasible: none of them could train.
        """
        with owned(self.folder):
            return self._measured()

    def _measured(self) -> Measurements:
        write_text(self.folder / "profile.json", self.profile.to_json())
        alone = self._train_all()
        self._meter.say("building")
        built = self._measure_building()
        server = min(alone, key=lambda name: alone[name].timer.step_s)
        paths = self._measure_paths(list(alone))
        taken = alone[server].timer.taken
        factors = self._all_factors(server, alone, paths)
        devices = {
            name: self._device(name, alone[name], built[name], paths, _origin(name, server, each))
            | factor_fields(each, server)
            | {"served_s": self._served_s(name, [other for other in factors if other != name])}
            for name, each in factors.items()
        }
        return Measurements.model_validate(
            {
                "model": self.profile.model,
                "batch": self.request.batch,
                "steps": max(1, self.request.steps - taken),
                "pretrained_steps": taken,
                "parameter_bytes": self.parameter_bytes,
                "engine": self.request.engine,
                "testbed": self.request.testbed,
                "devices": devices,
            }
        )

    def _measure_building(self) -> dict[str, BuildTime]:
        asked = self.request
        if self._prober is not None:
            return measure_build_times_on_hosts(self._prober, asked.model, asked.input_shape, asked.batch)
        return dict.fromkeys(self.cluster.computing, measure_build_time(asked.model, asked.input_shape, asked.batch))

    def _train_all(self) -> dict[str, DeviceMeasurement]:
        alone, failed = {}, []
        self._meter.expect({name: self._runs.expected_s(name) for name in self.cluster.computing})
        for name in self.cluster.computing:
            self._meter.begin(name)
            try:
                alone[name] = self._runs.train_alone(name, self._meter.step)
            except PalmetteError as error:
                failed.append(f"{name}: {_first_line(error)}")
                self._warn(f"{name} is left out: {_first_line(error)}")
        if not alone:
            raise Infeasible(f"no device could train; {failed[0]}")
        return alone

    def _measure_paths(self, names: list[str]) -> Paths:
        """Bandwidth and latency between any two devices that links join, either way round; of traces, the mean."""
        routes = evaluator(self.profile, self.cluster).routes
        transfer = None if self._prober is None else transfers_on_hosts(self._prober)
        found: dict[tuple[str, str], MeasuredPath] = {}
        steady = self.cluster.steady()
        for k, a in enumerate(names):
            for b in names[k + 1 :]:
                if routes.between(a, b) is None:
                    self._warn(f"{a} and {b} cannot talk: there is no path between them")
                    continue
                self._meter.say(f"bandwidth between {a} and {b}")
                try:
                    path = measure_bandwidth(a, b, steady, self._testbed, transfer)
                except RunError as error:
                    self._warn(f"{a} and {b} are treated as unconnected: {_first_line(error)}")
                    continue
                found[a, b], found[b, a] = path, path.reversed
        return found

    def _served_s(self, server: str, others: list[str]) -> float:
        """Seconds for which a step of another device takes the way to a server here that several of them share."""
        routes, seconds = evaluator(self.profile, self.cluster).routes, 0.0
        for ends in ([(server, other) for other in others], [(other, server) for other in others]):
            used = [route.resources for pair in ends if (route := routes.between(*pair)) is not None]
            passing = Counter(resource for resources in used for resource in resources)
            shared = [routes.capacities[resource] for resource, many in passing.items() if many > 1]
            seconds += 8 * self.parameter_bytes / min(shared) if shared else 0.0
        return seconds

    def _testbed(self, plan: Plan, prices: Evaluator) -> Testbed:
        asked = self.request
        request = Request(
            engine=asked.engine,
            testbed=asked.testbed,
            dilation=1.0,
            keys=asked.keys,
            listen=asked.listen,
            insecure=asked.insecure,
        )
        return engine_of(request, plan, prices)[0]

    def _all_factors(
        self, server: str, alone: Mapping[str, DeviceMeasurement], paths: Paths
    ) -> dict[str, FactorsByServer]:
        """The communication factors of every device; one that fails beside the parameter server is left out."""
        if len(self.request.bandwidths_bps) == 1:
            self._warn("one --bandwidth is too few to fit the factors: they are predicted")
        found = {}
        for name, each in alone.items():
            try:
                faster = {
                    other: path for other, path in _paths_of(name, paths).items() if _no_slower(alone, other, name)
                }
                found[name] = self._factors(name, server, each, faster)
            except RunError as error:
                self._warn(f"{name} is left out: {_first_line(error)}")
        return found

    def _factors(
        self, name: str, server: str, alone: DeviceMeasurement, faster: Mapping[str, MeasuredPath]
    ) -> FactorsByServer:
        """The factors of a device with the parameter server on any of the faster ones that it can talk with.

        Steps are measured with the fastest one's server only: with another's the same bytes take another path.
        """
        power = self.cluster.nodes[name].power
        idle_w = None if power is None else min(power.idle_w, alone.power_w)
        lone = StandaloneDevice(alone.timer.step_s, alone.power_w, idle_w)
        if len(self.request.bandwidths_bps) < 2 or server not in faster:
            return {
                other: predict_factors(lone, self.parameter_bytes, path.bandwidth_bps, path.latency_s)
                for other, path in faster.items()
            }
        steps_s = {}
        for bandwidth_bps in self.request.bandwidths_bps:
            self._meter.say(f"{name} with the parameter server on {server} at {bandwidth_bps / 1e6:g} Mbit/s")
            steps_s[bandwidth_bps] = self._runs.step_with_server_s(name, server, bandwidth_bps)
        return {other: fit_factors(lone, steps_s, path.bandwidth_bps) for other, path in faster.items()}

    def _device(
        self, name: str, alone: DeviceMeasurement, built: BuildTime, paths: Paths, factors: str
    ) -> dict[str, Any]:
        node, step_s = self.cluster.nodes[name], alone.timer.step_s
        here = node.host == HERE or self._prober is not None
        machine = "this machine" if self._prober is None else "its host"
        return {
            "step_s": step_s,
            "build_s": built.build_s if here else built.emulated_s(step_s, alone.timer.steps_s[0]),
            "power_w": alone.power_w,
            "origin": {
                "steps": f"measured on {machine}" if here else f"emulated: {node.hardware}, {self.request.testbed}",
                "build": f"measured on {machine}" if here else EMULATED_BUILD,
                "power": alone.power_source,
                "factors": factors,
            },
            "bandwidth_bps": {other: path.bandwidth_bps for other, path in _paths_of(name, paths).items()},
            "latency_s": {other: path.latency_s for other, path in _paths_of(name, paths).items()},
            "warmup_steps": alone.timer.warm_at,
            "pretrained_steps": alone.timer.taken,
            "counters": dict(alone.counters),
            "absent_counters": absent_counters(alone.counters) if alone.counters else [],
            "weights": str(alone.weights),
        }


def _paths_of(name: str, paths: Paths) -> dict[str, MeasuredPath]:
    return {other: path for (one, other), path in paths.items() if one == name}


def _no_slower(alone: Mapping[str, DeviceMeasurement], one: str, other: str) -> bool:
    return alone[one].timer.step_s <= alone[other].timer.step_s


def _origin(name: str, server: str, factors: FactorsByServer) -> str:
    """Where a device's factors beside the fastest one come from."""
    if name == server:
        return SERVER
    return factors[server].origin if server in factors else f"unknown: it cannot talk with {server}"


def _first_line(error: PalmetteError) -> str:
    return str(error).splitlines()[0]


def with_data(cluster: Cluster, samples: int) -> Cluster:
    """The cluster in which every node has data of its own: each device is to train alone."""
    nodes = {
        name: node if node.source or node.relay else node.model_copy(update={"source": Source(samples=samples)})
        for name, node in cluster.nodes.items()
    }
    return cluster.model_copy(update={"nodes": nodes})
