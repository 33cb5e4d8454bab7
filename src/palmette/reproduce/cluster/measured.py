"""Gu et al.'s cases with layer times of this machine, a real pre-training, and clusters really trained on the testbed.

The layers are measured here, once per network. No GTX 1050 or Jetson is at hand: each is this machine made faster by
one factor, such that a step takes what the catalogue predicts for it. Every device is pre-trained alone, one process
on the paced testbed, and the bandwidth between any two is measured by a transfer. What a cluster really takes is found
by training it, until its slowest device has taken two steps (``measured``); the whole time follows from the mean step.
Time is dilated ten times, or less where that would take long: what the workers do between their calls, such as copies
of the weights, is no part of the emulated machine, and the less it weighs the better. Where a cluster needs more than
that, or two minutes, it is the event clock's with the same layer times (``simulated``). Power is the catalogue's on the
trace of the run: modelled, nothing is metered.

Results are kept in a folder, so that a command that was stopped continues where it was.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from palmette.control.pretrain.pretrainer import Pretrainer
from palmette.control.pretrain.request import PretrainRequest
from palmette.control.pretrain.step_timer import StepCounts
from palmette.control.run.engines import engine_of
from palmette.control.run.request import FULL_TRACE, Request
from palmette.control.run.session import prepare
from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.errors import RunError
from palmette.measure.bandwidth import MeasuredLink as MeasuredPath
from palmette.measure.bandwidth import measure_bandwidth
from palmette.measure.communication_factors import StandaloneDevice
from palmette.measure.profiling import profile_network
from palmette.reproduce.cluster import paper
from palmette.reproduce.cluster.catalogue import simulated_cost, whole_s
from palmette.reproduce.cluster.simulation import device_rates, mean_power_w
from palmette.reproduce.hiertrain.sensitivity import scaled
from palmette.reproduce.progress import Progress
from palmette.runtime.options import Options
from palmette.runtime.record.operations import CALLS
from palmette.spec.cluster import Cluster
from palmette.spec.document import Document, Number, Positive
from palmette.spec.files import load, write_text
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Phase, Plan
from palmette.spec.profile import Profile
from palmette.testbed.padding import needed_dilation
from palmette.zoo.models import load_network

TYPICAL_S = 1200.0
STEP_COUNTS = StepCounts(warmup=1, timed=3, counted=0)
SLACK = 1.5  # by which a pre-training is dilated beyond what the fastest device needs
OPTIONS = Options(lr=0.001)
SLOWEST_STEPS, LEAST_STEPS = 2.2, 6
MOST_DILATION, LONGEST_S, TYPICAL_S = 10.0, 120.0, 15.0


class TrainingRecord(Document):
    """A trained cluster: seconds per iteration, watts, and the time dilation."""

    iteration_s: Positive
    power_w: Number
    dilation: Positive


class LinkRecord(Document):
    """Bandwidth and latency that a transfer between two devices had."""

    bandwidth_bps: Positive
    latency_s: Number


Kept = TypeVar("Kept", Profile, Measurements, TrainingRecord, LinkRecord)


class MeasuredCases:
    """Cases measured on this machine; results are kept in a folder."""

    how = (
        "measured: layer times of this machine, scaled to what the catalogue predicts for a step; devices pre-trained, "
        "clusters trained on the testbed, those that need a dilation above 10 or too long simulated; power modelled"
    )

    def __init__(self, folder: Path, progress: Progress, longest_s: float = LONGEST_S) -> None:
        self._folder, self._progress, self._longest_s = folder, progress, longest_s

    def cases(self, name: str) -> Iterator[paper.ClusterCase]:
        """A network at each bandwidth."""
        here = self._cached(Profile, f"{name}/layers", lambda: _layers(name))
        profile = scaled_to_catalogue(
            here, profile_network(load_network(paper.MODELS[name]), paper.machines(paper.MBPS[0]))
        )
        table = self._cached(Measurements, f"{name}/pretrained", lambda: self._pretrain(name, profile, here))
        builds_s = {device: each.build_s for device, each in table.devices.items()}
        for mbps in paper.MBPS:
            prices = evaluator(profile, paper.machines(mbps))
            alone = {device: _alone(device, table, prices) for device in paper.MACHINES}
            paths = {pair: path for a, b in combinations(paper.MACHINES, 2) for pair, path in self._paths(a, b, mbps)}
            clusters = [_TrainableCluster(name, members, prices, here) for members in paper.clusters()]
            trained = {each.members: self._train(each, mbps) for each in clusters}
            yield paper.ClusterCase(
                mbps,
                alone,
                builds_s,
                paths,
                sum(layer.parameter_bytes for layer in profile.layers),
                {each.members: each.cost(trained[each.members], builds_s) for each in clusters},
                {members: "simulated" if found is None else "measured" for members, found in trained.items()},
            )

    def _cached(self, kind: type[Kept], name: str, make: Callable[[], Kept]) -> Kept:
        """A result of an earlier run from its file, or one that is made and written now.

        Raises:
            InputError: the earlier one cannot be read.
        """
        file = self._folder / f"{name}.json"
        if not file.is_file():
            self._progress(name)
            made = make()
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, made.model_dump_json(indent=1) + "\n")
        return load(kind, file)

    def _pretrain(self, name: str, profile: Profile, here: Profile) -> Measurements:
        """Every device alone.

        Raises:
            RunError: one of them failed.
        """
        prices = evaluator(profile, paper.machines(paper.MBPS[0]))
        alone = [_TrainableCluster(name, (device,), prices, here) for device in paper.MACHINES]
        request = PretrainRequest(
            model=paper.MODELS[name],
            batch=paper.BATCH,
            steps=paper.STEPS,
            step_counts=STEP_COUNTS,
            profile=profile,
            dilation=SLACK * max(each.needs for each in alone),
            options=OPTIONS,
        )
        with tempfile.TemporaryDirectory(prefix="palmette-") as folder:
            table = Pretrainer(
                paper.machines(paper.MBPS[0]),
                request,
                Path(folder),
                lambda now: self._progress(now.what),
                self._progress,
            ).run()
        missing = [device for device in paper.MACHINES if device not in table.devices]
        if missing:
            raise RunError(f"{missing[0]} could not be pre-trained on {name}, and no case can do without it")
        return table

    def _paths(self, a: str, b: str, mbps: float) -> Iterator[tuple[tuple[str, str], MeasuredPath]]:
        """The path between two devices, either way round."""
        found = self._cached(LinkRecord, f"links/{a}-{b}-{mbps:g}", lambda: _measure_link(a, b, mbps))
        for pair in ((a, b), (b, a)):
            yield pair, MeasuredPath(found.bandwidth_bps, found.bandwidth_bps, found.latency_s)

    def _train(self, cluster: _TrainableCluster, mbps: float) -> TrainingRecord | None:
        """What a cluster did; None where it cannot be trained here. A device alone does not care for the bandwidth."""
        if cluster.needs > MOST_DILATION or cluster.lasts_s > self._longest_s:
            return None
        at = "" if len(cluster.members) == 1 else f"-{mbps:g}"
        return self._cached(TrainingRecord, f"{cluster.name}/{'-'.join(cluster.members)}{at}", cluster.train)


class _TrainableCluster:
    """Devices that train a network together, as the clock sees them and for real."""

    def __init__(self, name: str, members: paper.Devices, prices: Evaluator, here: Profile) -> None:
        self.name, self.members, self._prices = name, members, prices
        self._phase: Phase = paper.forest(members, prices.profile)
        price = prices.price(self._phase)
        slowest_s = max(played.total_s for _, _, played in price.played)
        self._iterations = max(LEAST_STEPS, math.ceil(SLOWEST_STEPS * slowest_s / price.iteration_s))
        emulated_s = self._iterations * price.iteration_s
        self.needs = needed_dilation(self._phase, prices, evaluator(here, prices.cluster))
        self.dilation = max(self.needs, min(MOST_DILATION, TYPICAL_S / emulated_s))
        self.lasts_s = self.dilation * (emulated_s + slowest_s)  # its last step may begin when all others end

    def train(self) -> TrainingRecord:
        """Train for a few steps."""
        profile, cluster = self._prices.profile, self._prices.cluster
        plan = Plan(model=profile.model, batch=paper.BATCH, phases=(self._phase,))
        request = Request(iterations=self._iterations, dilation=self.dilation, trace=FULL_TRACE, options=OPTIONS)
        with tempfile.TemporaryDirectory(prefix="palmette-") as folder:
            outcome = prepare(plan, profile, cluster, request, Path(folder)).run(lambda _: None, lambda _: None)
            trace = [json.loads(line) for line in (Path(folder) / "trace.jsonl").read_text().splitlines()]
        assert outcome.iteration_s is not None, "it ran to its end"
        power_w = power_while_all_train_w(trace, cluster)
        return TrainingRecord(iteration_s=outcome.iteration_s, power_w=power_w, dilation=self.dilation)

    def cost(self, trained: TrainingRecord | None, builds_s: dict[str, float]) -> paper.ClusterCost:
        """The whole training, from what was measured of it, or by the clock.

        How the steps are shared out is the clock's: that matters only while some are building.
        """
        if trained is None:
            return simulated_cost(self.members, self._prices, builds_s)
        found = device_rates(self._phase, self._prices)
        faster = 1 / trained.iteration_s / sum(each.rate for each in found.values())
        rates = {name: each._replace(rate=each.rate * faster) for name, each in found.items()}
        return paper.ClusterCost(whole_s(rates, builds_s), trained.power_w)


def power_while_all_train_w(trace: Sequence[Mapping[str, Any]], cluster: Cluster) -> float:
    """Mean watts of all devices while each takes step after step, whatever they wait for at an epoch's end.

    Steps come at the rate of a tree's median one, and each keeps devices computing for so long. An instance is called
    like its device.
    """
    spans: dict[str, dict[int, tuple[float, float]]] = {}
    busy_s: dict[str, dict[str, float]] = {}
    for line in trace:
        tree, start_s, end_s = line["instance"], line["start_s"], line["end_s"]
        known = spans.setdefault(tree, {})
        first_s, last_s = known.get(line["iteration"], (start_s, end_s))
        known[line["iteration"]] = min(first_s, start_s), max(last_s, end_s)
        if line["op"] in CALLS:
            own = busy_s.setdefault(line["node"], {})
            own[tree] = own.get(tree, 0.0) + end_s - start_s
    rates = {tree: 1 / median(end_s - start_s for start_s, end_s in known.values()) for tree, known in spans.items()}
    computing = {
        node: sum(each_s / len(spans[tree]) * rates[tree] for tree, each_s in own.items())
        for node, own in busy_s.items()
    }
    return sum(mean_power_w(cluster.nodes[node], [(0.0, min(1.0, part))], 1.0) for node, part in computing.items())


def _layers(name: str) -> Profile:
    """The layers as measured here, the same for every machine."""
    return profile_network(load_network(paper.MODELS[name]), paper.machines(paper.MBPS[0]), tuple(paper.MACHINES))


def scaled_to_catalogue(here: Profile, catalogue: Profile) -> Profile:
    """The layers as measured here, each machine's with the factor that makes its step last as the catalogue has it."""
    cluster = paper.machines(paper.MBPS[0])

    def step_s(profile: Profile, device: str) -> float:
        return evaluator(profile, cluster).price(paper.forest((device,), profile)).iteration_s

    factors = {device: step_s(catalogue, device) / step_s(here, device) for device in paper.MACHINES}
    return here.model_copy(update={"nodes": {name: scaled(here.nodes[name], each) for name, each in factors.items()}})


def _alone(device: str, table: Measurements, prices: Evaluator) -> StandaloneDevice:
    """A device as its pre-training found it."""
    found, power = table.devices[device], prices.cluster.nodes[device].power
    assert power is not None, "the catalogue knows every machine's"
    return StandaloneDevice(found.step_s, found.power_w, min(power.idle_w, found.power_w))


def _measure_link(a: str, b: str, mbps: float) -> LinkRecord:
    request = Request(dilation=1.0)
    found = measure_bandwidth(a, b, paper.machines(mbps), lambda plan, prices: engine_of(request, plan, prices)[0])
    return LinkRecord(bandwidth_bps=found.bandwidth_bps, latency_s=found.latency_s)
