"""Runs of one device: alone, to be measured, and with the parameter server on another one, to fit its factors.

A device's training is an ordinary run of a plan with one node, on the testbed that emulates it, or, with
``host: local``, as fast as this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_high
from urllib.parse import quote

from palmette.control.pretrain.power import mean_counters, watts_of
from palmette.control.pretrain.request import PretrainRequest
from palmette.control.pretrain.step_timer import StepTimer
from palmette.control.run.request import Request
from palmette.control.run.session import TrainingSession
from palmette.cost.estimate import evaluator
from palmette.errors import PalmetteError
from palmette.measure.counters import read_counters
from palmette.measure.meters.base import Meter
from palmette.runtime.engines.registry import ENGINES
from palmette.runtime.training.job import ProgressUpdate
from palmette.runtime.training.loop import Training
from palmette.spec.cluster import HERE, Cluster, Link
from palmette.spec.plan import Inputs, Phase, Plan
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance
from palmette.testbed.registry import TESTBEDS, default_testbed

FACTOR_STEPS = 5


@dataclass(frozen=True)
class DeviceMeasurement:
    """What was measured of a device that trained alone."""

    timer: StepTimer
    power_w: float
    power_source: str
    weights: Path
    counters: Mapping[str, float]


@dataclass(frozen=True)
class DeviceRuns:
    """Trains devices of a cluster, one at a time; what they write goes to ``folder``; ``meters`` are their own."""

    request: PretrainRequest
    cluster: Cluster
    profile: Profile
    folder: Path
    meters: Mapping[str, Meter] = field(default_factory=dict)

    def expected_s(self, name: str) -> float:
        """Seconds that a device needs to train alone by the estimate; 0 where there is none."""
        try:
            price = evaluator(self.profile, self.cluster).price(self._plan(name, name, self.cluster).phases[0])
        except PalmetteError:
            return 0.0
        return self.request.step_counts.most * price.iteration_s

    def train_alone(self, name: str, on_step: Callable[[float], None] = lambda _: None) -> DeviceMeasurement:
        """Train one device; its step timer ends the run. ``on_step`` gets the share of its steps that is done.

        Raises:
            PalmetteError: it may not or cannot train.
        """
        timer, samples = StepTimer(self.request.step_counts), list[dict[str, float]]()
        here = self.cluster.nodes[name].host == HERE and not ENGINES[self.request.engine].real_hosts
        meter = self.request.meter if here else self.meters.get(name)
        started: list[Training] = []

        def on_update(update: ProgressUpdate) -> None:
            if update.evaluation is not None:
                return
            was_counting = timer.counting
            timer.step(update.iteration_s)
            on_step(timer.taken / timer.counts.most)
            if timer.counting:
                samples.append(read_counters())
                if meter is not None and not was_counting:
                    meter.begin()
            if timer.done:
                started[0].stop()

        request = self._request(timer.counts.most, default_testbed(real_hosts=True) if here else self.request.testbed)
        plan = self._plan(name, name, self.cluster)
        session = TrainingSession(plan, request, self.folder / folder_name(name), None)
        outcome = session.run(on_update, started.append)
        model = self.request.power if self.cluster.nodes[name].host == HERE else None
        power_w, source = watts_of(name, outcome, meter, model, samples)
        return DeviceMeasurement(timer, power_w, source, session.folder / "model.safetensors", mean_counters(samples))

    def step_with_server_s(self, name: str, server: str, bandwidth_bps: float) -> float:
        """Seconds of a device's step with the parameter server on another one, at a bandwidth."""
        link = Link(between=(name, server), bandwidth_bps=bandwidth_bps)
        pair = self.cluster.model_copy(update={"links": (link,), "sets": {}})
        steps_s: list[float] = []

        def on_update(update: ProgressUpdate) -> None:
            if update.evaluation is None:
                steps_s.append(update.iteration_s)

        request = self._request(FACTOR_STEPS, self.request.testbed)
        session = TrainingSession(self._plan(name, server, pair), request, self.folder / ".tried", None)
        session.run(on_update, lambda _: None)
        return median_high(steps_s)

    def _request(self, iterations: int, testbed: str) -> Request:
        asked = self.request
        return Request(
            data=asked.data,
            iterations=iterations,
            engine=asked.engine,
            testbed=testbed,
            dilation=asked.dilation if TESTBEDS[testbed].emulates else None,
            input_shape=asked.input_shape,
            keys=asked.keys,
            listen=asked.listen,
            insecure=asked.insecure,
            options=asked.options,
        )

    def _plan(self, name: str, server: str, cluster: Cluster) -> Plan:
        """One device trains the whole network, with the parameter server on itself or another one."""
        share = cluster.nodes[name].limits.cpu_share
        phase = Phase(
            sync="async",
            server=server,
            sources=(Feed(node=name, samples=self.request.batch, into=name),),
            instances=(Instance(id=name, layers=(1, len(self.profile.layers)), node=name, cpu_share=share),),
        )
        inputs = Inputs(cluster=cluster, profile=self.profile)
        return Plan(model=self.profile.model, batch=self.request.batch, phases=(phase,), inputs=inputs)


def folder_name(device: str) -> str:
    """A device's name as the name of a folder, whatever characters it has."""
    return quote(device, safe=" ").replace(".", "%2E")
