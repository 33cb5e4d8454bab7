"""Pre-training: every device trains the network alone for a short while, so that the best of them can be chosen.

Steps 1 to 3 of Gu et al. A device's training is an ordinary run of a plan with one node, on the testbed that emulates
it, or, with ``host: local``, as fast as this machine. It leaves its weights behind: those of the device that is to have
the parameter server are where the chosen cluster goes on, so that the steps of the pre-training count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from palmette.control.pretrain.stopwatch import Lengths, Stopwatch
from palmette.control.run.data import COMMON
from palmette.control.run.engines import engine_of, refuse_unknown
from palmette.control.run.run import Request, Running
from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.errors import Fault, Infeasible, InputError, PalmetteError, RunError
from palmette.measure.bandwidth import MeasuredLink, measure_bandwidth
from palmette.measure.build_time import BuildTime, measure_build_time
from palmette.measure.communication_factors import CommunicationFactors, StandaloneDevice, fit_factors, predict_factors
from palmette.measure.counters import read_counters
from palmette.measure.meters.base import Meter
from palmette.measure.profiling import profile_network
from palmette.measure.ray_hosts import measure_build_times_on_hosts, measure_times_on_hosts, transfer_on_hosts
from palmette.runtime.engines.testbed import Ground
from palmette.runtime.options import Options
from palmette.runtime.training.job import Outcome, Update
from palmette.runtime.training.loop import Training, refuse_unfit
from palmette.spec.cluster import Cluster, Link, Source
from palmette.spec.files import make_folder, write_text
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Inputs, Phase, Plan
from palmette.spec.power import PowerModel
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance
from palmette.zoo.data import load_data
from palmette.zoo.freezing import matching_weights, refuse_all_frozen
from palmette.zoo.models import Network, load_network

DECLARED = "modelled: declared power on the measured trace"
TRIED_STEPS = 5


@dataclass(frozen=True, kw_only=True)
class Pretraining:
    """What a user asks of a pre-training.

    ``steps`` are those of the whole training. ``bandwidths_bps``, if two or more, are tried out to fit the
    communication factors. ``meter`` or ``power`` tell the watts of nodes with ``host: local``. ``profile`` has the
    layers' times by which nodes are emulated, if not those of the catalogue.
    """

    model: str
    data: str | None = None
    batch: int = 32
    steps: int = 100_000
    lengths: Lengths = field(default_factory=Lengths)
    bandwidths_bps: tuple[float, ...] = ()
    engine: str = "local"
    testbed: str = "paced"
    dilation: float | None = None
    input_shape: tuple[int, ...] | None = None
    meter: Meter | None = None
    power: PowerModel | None = None
    profile: Profile | None = None
    options: Options = field(default_factory=Options)


Told = Callable[[str], None]


@dataclass(frozen=True)
class _Alone:
    """What a device did alone."""

    watch: Stopwatch
    power_w: float
    power_source: str
    weights: Path
    counted: Mapping[str, float]


class Pretrainer:
    """Carries out a pre-training; ``told`` hears what is being done, ``warned`` who is left out."""

    def __init__(self, cluster: Cluster, wish: Pretraining, folder: Path, told: Told, warned: Told) -> None:
        self.wish, self.folder, self.told, self.warned = wish, folder, told, warned
        refuse_unknown("--engine", wish.engine)
        refuse_unknown("--testbed", wish.testbed)
        network = load_network(wish.model, wish.input_shape, seed=wish.options.seed)
        refuse_all_frozen(wish.model, network.layers, matching_weights(network.layers, wish.options.freeze))
        self.cluster = with_data(cluster, self._common_samples(cluster, network))
        refuse_unpowered(self.cluster, wish)
        self.profile = wish.profile or self._layers(network)
        self.parameter_bytes = sum(layer.parameter_bytes for layer in self.profile.layers)

    def _common_samples(self, cluster: Cluster, network: Network) -> int:
        """How many samples the data has that is not a node's own; 0 where every node names its own.

        Raises:
            InputError: it cannot be had, or does not fit the network.
        """
        named = [node.source is not None and node.source.data is not None for node in cluster.nodes.values()]
        if self.wish.data is None and all(named):
            return 0
        data = load_data(self.wish.data or COMMON, network.input_shape)
        refuse_unfit(network, data)
        return len(data.train)

    def _layers(self, network: Network) -> Profile:
        self.told("layer times")
        wish = self.wish
        elsewhere = measure_times_on_hosts(wish.model, self.cluster, (), wish.input_shape) if self._on_ray else {}
        return profile_network(network, self.cluster, elsewhere=elsewhere)

    def run(self) -> Measurements:
        """Measure all devices.

        Raises:
            Infeasible: none of them could train.
        """
        make_folder(self.folder)
        write_text(self.folder / "profile.json", self.profile.to_json())
        alone = self._all_alone()
        self.told("building")
        built = self._built()
        server = min(alone, key=lambda name: alone[name].watch.step_s)
        ways = self._ways(list(alone))
        taken = alone[server].watch.taken
        factors = self._all_factors(server, alone, ways)
        table = {name: self._device(name, alone[name], built[name], ways, each) for name, each in factors.items()}
        return Measurements.model_validate(
            {
                "model": self.profile.model,
                "batch": self.wish.batch,
                "steps": max(1, self.wish.steps - taken),
                "pretrained_steps": taken,
                "parameter_bytes": self.parameter_bytes,
                "engine": self.wish.engine,
                "testbed": self.wish.testbed,
                "devices": table,
            }
        )

    @property
    def _on_ray(self) -> bool:
        return self.wish.engine == "ray"

    def _built(self) -> dict[str, BuildTime]:
        wish = self.wish
        if self._on_ray:
            return measure_build_times_on_hosts(wish.model, self.cluster, wish.input_shape, wish.batch)
        return dict.fromkeys(self.cluster.nodes, measure_build_time(wish.model, wish.input_shape, wish.batch))

    def _all_alone(self) -> dict[str, _Alone]:
        alone, failed = {}, []
        for name in self.cluster.nodes:
            self.told(f"{name} trains alone")
            try:
                alone[name] = self._train_alone(name)
            except PalmetteError as error:
                failed.append(f"{name}: {_said(error)}")
                self.warned(f"{name} is left out: {_said(error)}")
        if not alone:
            raise Infeasible(f"no device could train; {failed[0]}")
        return alone

    def _train_alone(self, name: str) -> _Alone:
        """A run of one node; the stopwatch ends it.

        Raises:
            PalmetteError: it may not or cannot train.
        """
        watch, counted = Stopwatch(self.wish.lengths), list[dict[str, float]]()
        here = self.cluster.nodes[name].host == "local" and not self._on_ray
        meter = self.wish.meter if here else None
        begun: list[Training] = []

        def heard(update: Update) -> None:
            if update.judgement is not None:
                return
            before = watch.counting
            watch.step(update.iteration_s)
            if watch.counting:
                counted.append(read_counters())
                if meter is not None and not before:
                    meter.begin()
            if watch.done:
                begun[0].stop()

        request = self._request(watch.lengths.most, "none" if here else self.wish.testbed)
        running = Running(self._plan(name, name, self.cluster), request, self.folder / folder_name(name), None)
        outcome = running.run(heard, begun.append)
        power_w, source = self._watts(name, outcome, meter, counted)
        return _Alone(watch, power_w, source, running.folder / "model.safetensors", mean_of(counted))

    def _watts(
        self, name: str, outcome: Outcome, meter: Meter | None, counted: list[dict[str, float]]
    ) -> tuple[float, str]:
        """Mean watts of a device while it trained, and where they come from."""
        if meter is not None:
            metered = meter.end()
            return metered.watts, metered.source
        if self.wish.power is not None and self.cluster.nodes[name].host == "local":
            return mean_watts(
                self.wish.power, counted
            ), f"modelled: regression on counters, metered by {self.wish.power.meter}"
        assert outcome.energy_j is not None, "refuse_unpowered() comes first"
        return outcome.energy_j / outcome.node_seconds[name]["whole_s"], DECLARED

    def _ways(self, names: list[str]) -> dict[tuple[str, str], MeasuredLink]:
        """Bandwidth and latency between any two devices that links join, either way round."""
        routes = evaluator(self.profile, self.cluster).routes
        found: dict[tuple[str, str], MeasuredLink] = {}
        for k, a in enumerate(names):
            for b in names[k + 1 :]:
                if routes.between(a, b) is None:
                    self.warned(f"{a} and {b} cannot talk: there is no path between them")
                    continue
                self.told(f"bandwidth between {a} and {b}")
                try:
                    way = measure_bandwidth(
                        a, b, self.cluster, self._ground, transfer_on_hosts if self._on_ray else None
                    )
                except RunError as error:
                    self.warned(f"{a} and {b} are taken for such that cannot talk: {_said(error)}")
                    continue
                found[a, b] = found[b, a] = way
        return found

    def _ground(self, plan: Plan, prices: Evaluator) -> Ground:
        request = Request(engine=self.wish.engine, testbed=self.wish.testbed, dilation=1.0)
        return engine_of(request, plan, prices)[0]

    def _all_factors(
        self, server: str, alone: Mapping[str, _Alone], ways: Mapping[tuple[str, str], MeasuredLink]
    ) -> dict[str, CommunicationFactors]:
        """The factors of every device; one that fails beside the parameter server is left out."""
        if len(self.wish.bandwidths_bps) == 1:
            self.warned("one --bandwidth is too few to fit the factors: they are predicted")
        found = {}
        for name, each in alone.items():
            try:
                found[name] = self._factors(name, server, each, ways)
            except RunError as error:
                self.warned(f"{name} is left out: {_said(error)}")
        return found

    def _factors(
        self, name: str, server: str, alone: _Alone, ways: Mapping[tuple[str, str], MeasuredLink]
    ) -> CommunicationFactors:
        if name == server:
            return CommunicationFactors()
        if (name, server) not in ways:
            return CommunicationFactors(origin=f"unknown: it cannot talk with {server}")
        power = self.cluster.nodes[name].power
        idle_w = None if power is None else min(power.idle_w, alone.power_w)
        way, lone = ways[name, server], StandaloneDevice(alone.watch.step_s, alone.power_w, idle_w)
        if len(self.wish.bandwidths_bps) < 2:
            return predict_factors(lone, self.parameter_bytes, *way)
        tried = {bps: self._tried(name, server, bps) for bps in self.wish.bandwidths_bps}
        return fit_factors(lone, tried, way.bandwidth_bps)

    def _tried(self, name: str, server: str, bandwidth_bps: float) -> float:
        """Seconds of a device's step with the parameter server elsewhere, at a bandwidth."""
        self.told(f"{name} with the parameter server on {server} at {bandwidth_bps / 1e6:g} Mbit/s")
        link = Link(between=(name, server), bandwidth_bps=bandwidth_bps)
        joined = self.cluster.model_copy(update={"links": (link,), "sets": {}})
        steps_s: list[float] = []
        request = self._request(TRIED_STEPS, self.wish.testbed)
        running = Running(self._plan(name, server, joined), request, self.folder / ".tried", None)
        running.run(
            lambda update: steps_s.append(update.iteration_s) if update.judgement is None else None, lambda _: None
        )
        return sorted(steps_s)[len(steps_s) // 2]

    def _device(
        self,
        name: str,
        alone: _Alone,
        built: BuildTime,
        ways: Mapping[tuple[str, str], MeasuredLink],
        factors: CommunicationFactors,
    ) -> dict[str, Any]:
        node, step_s = self.cluster.nodes[name], alone.watch.step_s
        here = node.host == "local" or self._on_ray
        machine = "its host" if self._on_ray else "this machine"
        return {
            "step_s": step_s,
            "build_s": built.build_s if here else built.build_s * step_s / built.pass_s,
            "power_w": alone.power_w,
            "with_server": {},
            **{field: getattr(factors, field) for field in factors._fields if field != "origin"},
            "origin": {
                "steps": f"measured on {machine}" if here else f"emulated: {node.hardware}, {self.wish.testbed}",
                "build": f"measured on {machine}" if here else "modelled: this machine's, by the time of a step",
                "power": alone.power_source,
                "factors": factors.origin,
            },
            "bandwidth_bps": {b: way.bandwidth_bps for (a, b), way in ways.items() if a == name},
            "latency_s": {b: way.latency_s for (a, b), way in ways.items() if a == name},
            "warmup_steps": alone.watch.warm_at,
            "pretrained_steps": alone.watch.taken,
            "counters": dict(alone.counted),
            "weights": str(alone.weights),
        }

    def _request(self, iterations: int, testbed: str) -> Request:
        wish = self.wish
        return Request(
            data=wish.data,
            iterations=iterations,
            engine=wish.engine,
            testbed=testbed,
            dilation=wish.dilation if testbed != "none" else None,
            input_shape=wish.input_shape,
            options=wish.options,
        )

    def _plan(self, name: str, server: str, cluster: Cluster) -> Plan:
        """One device trains the whole network, with the parameter server on itself or elsewhere."""
        share = cluster.nodes[name].limits.cpu_share
        phase = Phase(
            sync="async",
            server=server,
            sources=(Feed(node=name, samples=self.wish.batch, into=name),),
            instances=(Instance(id=name, layers=(1, len(self.profile.layers)), node=name, cpu_share=share),),
        )
        inputs = Inputs(cluster=cluster, profile=self.profile)
        return Plan(model=self.profile.model, batch=self.wish.batch, phases=(phase,), inputs=inputs)


def _said(error: PalmetteError) -> str:
    return str(error).splitlines()[0]


def folder_name(device: str) -> str:
    """A device's name as the name of a folder, whatever characters it has."""
    return quote(device, safe=" ").replace(".", "%2E")


def with_data(cluster: Cluster, samples: int) -> Cluster:
    """The cluster in which every node has data of its own: each device is to train alone."""
    nodes = {
        name: node if node.source else node.model_copy(update={"source": Source(samples=samples)})
        for name, node in cluster.nodes.items()
    }
    return cluster.model_copy(update={"nodes": nodes})


def refuse_unpowered(cluster: Cluster, wish: Pretraining) -> None:
    """Refuse nodes of which nobody could say what they draw.

    Raises:
        InputError: names each.
    """
    told = wish.meter is not None or wish.power is not None
    if wish.power is not None and any(node.host == "local" for node in cluster.nodes.values()):
        refuse_lacking(wish.power, read_counters())
    if told and wish.engine == "ray":
        option, expected = "--power" if wish.meter is None else "--meter", "it is read here; expected --engine local"
        raise InputError(Fault(option, "given", expected))
    if told and not wish.lengths.counted:
        raise InputError(Fault("--counted", 0, "power is taken during these steps; expected at least 1"))
    wrong = [
        Fault(f"nodes.{name}.power", "missing", "expected idle and busy watts, or hardware: … of the catalogue")
        for name, node in cluster.nodes.items()
        if node.power is None and not (told and node.host == "local")
    ]
    if wrong:
        raise InputError(wrong)


def mean_of(counted: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each counter that was always there."""
    names = [name for name in (counted[0] if counted else {}) if all(name in each for each in counted)]
    return {name: sum(each[name] for each in counted) / len(counted) for name in names}


def mean_watts(model: PowerModel, counted: list[dict[str, float]]) -> float:
    """What the model says of the counters, on average.

    Raises:
        InputError: a counter of the model was not there.
    """
    for each in counted:
        refuse_lacking(model, each)
    return sum(model.watts(each) for each in counted) / len(counted)


def refuse_lacking(model: PowerModel, known: Mapping[str, float]) -> None:
    """Refuse a model of counters that this machine does not have.

    Raises:
        InputError: names them.
    """
    lacking = [name for name in model.coefficients if name not in known]
    if lacking:
        expected = "this machine has no such counter; expected a model that was fitted here"
        raise InputError(Fault("--power", ", ".join(lacking), expected))
