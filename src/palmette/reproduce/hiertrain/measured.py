"""HierTrain's figures with layer times of this machine, and a dozen points really run on the testbed.

The layers are measured here, once per network. No Raspberry Pi, NUC or GTX 1080 Ti is at hand: each stands for this
machine made slower or faster by one factor, such that a sample through the whole network takes what the catalogue
predicts for it. The chosen points are trained for real, one process per node, on the paced testbed (``measured``); all
others are the event clock's with the same times (``simulated``). Time is dilated, at most ten times, such that emulated
machines are slower than this one, and beyond, so that other work on it matters less; a GTX 1080 Ti still overruns
then, by a few hundredths of an iteration.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from time import monotonic
from typing import Any

from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.cost.estimate import evaluator
from palmette.measure.profiling import profile_network
from palmette.reproduce.hiertrain import paper
from palmette.reproduce.hiertrain.figures import FigurePoint
from palmette.reproduce.hiertrain.sensitivity import scaled
from palmette.reproduce.progress import Progress, Record
from palmette.runtime.options import Options
from palmette.spec.plan import Plan, inputs_of
from palmette.spec.profile import Profile, Times
from palmette.testbed.padding import needed_dilation
from palmette.zoo.models import load_network

BATCH = 8
ALL_POINTS_S = 300.0  # typically
ITERATIONS = 3
MOST_DILATION = 10.0
TYPICAL_S = 15.0
"""A point is dilated until it lasts so long: the more, the less other work on this machine matters."""
LONGEST_S = 2400.0
"""No point is begun after so many seconds of running; the rest is simulated."""
CHOSEN = (
    *(
        FigurePoint(network, strategy, mbps)
        for network in ("AlexNet", "LeNet-5")
        for strategy, mbps in (
            ("hiertrain", 1.5),
            ("all-edge", 1.5),
            ("all-cloud", 1.5),
            ("jalad", 1.5),
            ("hybrid", 1.5),
            ("hiertrain", 5.0),
        )
    ),
    *(FigurePoint("AlexNet", "hiertrain", mbps) for mbps in (2.5, 3.5)),  # with those above, Fig. 6
)


class MeasuredTimings:
    """Layer times of this machine, iterations by the testbed and by the event clock."""

    layer_times = "measured: this machine's, scaled to what the catalogue predicts for a sample on each machine"

    def __init__(self, batch: int = BATCH, chosen: Collection[FigurePoint] = CHOSEN, progress: Progress = print):
        self.batch, self._chosen, self._progress = batch, chosen, progress
        self._here: dict[str, Times] = {}
        self._run: dict[str, Record] = {}
        self._running_s = 0.0

    def profile(self, network: str, cores: int = 1) -> Profile:
        """The layers as measured here, each machine with a factor of its own."""
        predicted = paper.catalogue_profile(network, cores)
        here = self._measured(network)
        factors = {name: _sample_s(times) / _sample_s(here) for name, times in predicted.nodes.items()}
        return predicted.model_copy(update={"nodes": {name: scaled(here, each) for name, each in factors.items()}})

    def _measured(self, network: str) -> Times:
        if network not in self._here:
            self._progress(f"measuring {network}")
            cluster = paper.machines(paper.EDGE_CLOUD_MBPS[0])
            self._here[network] = profile_network(load_network(network), cluster, ["device"]).nodes["device"]
        return self._here[network]

    def time(self, at: FigurePoint, plan: Plan) -> Record:
        """Run it if it is one of the chosen; equal plans at one bandwidth are run once."""
        assert plan.estimate is not None, "make_plan prices every plan"
        if at not in self._chosen or self._running_s > LONGEST_S:
            return {"iteration_s": plan.estimate.iteration_s, "how": "simulated"}
        key = f"{at.network} {at.mbps} {_shape(plan)}"
        if key not in self._run:
            self._progress(f"running {at.strategy} on {at.network} at {at.mbps:g} Mbit/s")
            began = monotonic()
            self._run[key] = self._train(plan, self._here[plan.model])
            self._running_s += monotonic() - began
        return self._run[key]

    def _train(self, plan: Plan, here: Times) -> Record:
        profile, cluster = inputs_of(plan, None, None)
        assert plan.estimate is not None, "make_plan prices every plan"
        slack = TYPICAL_S / (ITERATIONS * plan.estimate.iteration_s)
        dilation = min(MOST_DILATION, max(_needed_dilation(plan, here), slack))
        request = Request(iterations=ITERATIONS, dilation=dilation, options=Options(lr=0.001))
        with tempfile.TemporaryDirectory(prefix="palmette-") as folder:
            outcome = prepare(plan, profile, cluster, request, Path(folder)).run(lambda _: None, lambda _: None)
        assert outcome.iteration_s is not None, "it ran to its end"
        return {"iteration_s": outcome.iteration_s, "how": "measured", "dilation": dilation}


def _shape(plan: Plan) -> Any:
    """What is run, whatever its instances are called."""
    (phase,) = plan.phases
    place = {instance.id: k for k, instance in enumerate(phase.instances)} | {None: None}
    instances = [(i.layers, i.node, i.cpu_share, i.codec, place[i.into]) for i in phase.instances]
    return instances, [(feed.node, feed.samples, place[feed.into]) for feed in phase.sources]


def _sample_s(times: Times) -> float:
    return sum(times.forward_s) + sum(times.backward_s)


def _needed_dilation(plan: Plan, here: Times) -> float:
    """The dilation by which calls as slow as this machine's fit into those of the emulated ones."""
    profile, cluster = inputs_of(plan, None, None)
    emulated = evaluator(profile, cluster)
    as_here = evaluator(profile.model_copy(update={"nodes": dict.fromkeys(profile.nodes, here)}), cluster)
    return needed_dilation(plan.phases[0], emulated, as_here)
