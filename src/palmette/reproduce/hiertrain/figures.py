"""HierTrain's Figs. 6 to 11 and Table II, on the paper's machines as the catalogue knows them.

The paper does not say its batch; here it is 128 unless given otherwise. Layer times are predicted by the catalogue's
roofline, and a sample travels as the float32 numbers that the network takes. A point's ``iteration_s`` is that of the
strategy's own formula, as in the paper (``how``: ``formula``); hybrid has none, and its points are the event clock's
(``simulated``). ``measured`` is another source: layer times of this machine, and points that are really run; Fig. 6 is
about these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.strategy import Task
from palmette.reproduce.fitted import with_verdicts
from palmette.reproduce.hiertrain import paper
from palmette.reproduce.hiertrain.claims import claims, speeds
from palmette.reproduce.hiertrain.fitted import fits
from palmette.reproduce.hiertrain.sensitivity import sensitivity
from palmette.reproduce.progress import Progress, Record, silent
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Plan
from palmette.spec.profile import Profile

BATCH = 128
# Typical seconds of all figures on two cores; said before anything is known of this machine.
TYPICAL_S = 60.0
# More where the machines are fitted again.
FIT_S = 90.0
WHOLE = ("hiertrain", "all-edge", "all-cloud", "hybrid")
RIVALS = ("hiertrain", "jointdnn", "jointdnn+", "jalad", "hybrid")
X_LABEL = "edge–cloud bandwidth, Mbit/s"

OPTIONS: dict[str, Record] = {"hybrid": {"lossy": True, "resend": True}}
"""As jalad's, hybrid's outputs may travel as 8-bit integers; as all others', it sends samples for every iteration."""


class FigurePoint(NamedTuple):
    """A point of a figure: an iteration of a network by a strategy at a bandwidth."""

    network: str
    strategy: str
    mbps: float


class TimingSource(Protocol):
    """Where layer times come from, and how long an iteration of a plan takes."""

    @property
    def batch(self) -> int:
        """Samples per iteration."""
        ...

    @property
    def layer_times(self) -> str:
        """Where they come from, as text."""
        ...

    def profile(self, network: str, cores: int = 1) -> Profile:
        """The times of a network of the zoo on the paper's machines."""
        ...

    def time(self, at: FigurePoint, plan: Plan) -> Record:
        """``iteration_s`` of a plan, and ``how`` it was found."""
        ...


@dataclass(frozen=True)
class CatalogueTimings:
    """Layer times of the catalogue, iterations by the strategies' formulas."""

    batch: int = BATCH
    layer_times: str = "modelled: the catalogue's roofline"

    def profile(self, network: str, cores: int = 1) -> Profile:
        """What the roofline predicts."""
        return paper.catalogue_profile(network, cores)

    def time(self, at: FigurePoint, plan: Plan) -> Record:
        """The strategy's own formula; hybrid's is the clock."""
        assert plan.estimate is not None, "make_plan prices every plan"
        if "iteration_s" in plan.decision:
            return {"iteration_s": plan.decision["iteration_s"], "how": "formula"}
        return {"iteration_s": plan.estimate.iteration_s, "how": "simulated"}


def reproduce(progress: Progress = silent) -> Record:
    """Figs. 7 to 11, Table II and the claims about them, with the catalogue's layer times."""
    return reproduce_from(CatalogueTimings(), progress)


def reproduce_from(timings: TimingSource, progress: Progress = silent, *, fit_again: bool = False) -> Record:
    """All figures and the table, and the paper's claims beside them, also with fitted machines."""
    profiles = {name: timings.profile(network) for name, network in paper.NETWORKS.items()}
    figures: dict[str, Record] = {}
    for network, (whole, rivals) in {"AlexNet": ("7", "9"), "LeNet-5": ("8", "10")}.items():
        progress(f"Figs. {whole} and {rivals}")
        series = over_bandwidth(network, profiles[network], timings)
        figures[whole] = _figure(f"An iteration of {network}", {name: series[name] for name in WHOLE})
        figures[rivals] = _figure(f"An iteration of {network}", {name: series[name] for name in RIVALS})
    if (validity := real_and_formula(figures["7"]))["x"]:
        figures["6"] = validity
    progress("Fig. 11")
    figures["11"] = over_cores(timings)
    table = {name: _planning_times(name, network, progress) for name, network in paper.TABLE_2.items()}
    made: Record = {
        "format": "palmette.reproduction/1",
        "paper": "HierTrain",
        "batch": timings.batch,
        "layer_times": timings.layer_times,
        "device_edge_mbps": paper.DEVICE_EDGE_MBPS,
        "input_bytes": {name: profile.input_bytes for name, profile in profiles.items()},
        "speeds": {name: speeds(profile) for name, profile in profiles.items()},
        "figures": {number: figures[number] for number in sorted(figures, key=int)},
        "table_2": table,
    }
    progress("Fitted machines")
    fit = fits(fit_again, progress)
    progress("Sensitivity")
    found = with_verdicts(claims(made), list(fit.values()))
    return made | {"claims": found, "fit": fit, "causes": sensitivity(profiles, timings.batch)}


def over_bandwidth(network: str, profile: Profile, timings: TimingSource) -> dict[str, list[Record]]:
    """Seconds of an iteration by each strategy over the bandwidth between edge server and cloud."""
    series: dict[str, list[Record]] = {name: [] for name in dict.fromkeys([*WHOLE, *RIVALS])}
    for mbps in paper.EDGE_CLOUD_MBPS:
        cluster = paper.machines(mbps)
        for name, points in series.items():
            plan = _plan(name, profile, cluster, timings.batch, **OPTIONS.get(name, {}))
            points.append(_point(FigurePoint(network, name, mbps), plan, timings))
    return series


def real_and_formula(figure_7: Record) -> Record:
    """Fig. 6: HierTrain's iterations of AlexNet that were really run, and T_total of the same policies."""
    pairs = zip(figure_7["x"], figure_7["series"]["hiertrain"], strict=True)
    run = {mbps: point for mbps, point in pairs if point["how"] == "measured"}
    formula = [point | {"iteration_s": point["formula_s"], "how": "formula"} for point in run.values()]
    series = {"real": list(run.values()), "theoretical": formula}
    return _figure("Real and theoretical latency of AlexNet", series) | {"x": list(run)}


def over_cores(timings: TimingSource) -> Record:
    """HierTrain on AlexNet with 1 to 4 cores of the edge server."""
    series: dict[str, list[Record]] = {}
    for cores in range(1, 5):
        profile = timings.profile(paper.NETWORKS["AlexNet"], cores)
        name = f"{cores} core{'s' * (cores > 1)}"
        series[name] = []
        for mbps in paper.EDGE_CLOUD_MBPS:
            plan = _plan("hiertrain", profile, paper.machines(mbps, cores), timings.batch)
            series[name].append(_point(FigurePoint("AlexNet", name, mbps), plan, timings))
    return _figure("HierTrain on AlexNet by cores of the edge server", series)


def _figure(title: str, series: dict[str, list[Record]]) -> Record:
    return {"title": title, "x": list(paper.EDGE_CLOUD_MBPS), "x_label": X_LABEL, "series": series}


def _plan(strategy: str, profile: Profile, cluster: Cluster, batch: int, **options: Any) -> Plan:
    """A plan by the paper's account: tensors, sent for every iteration that uses them."""
    task = Task(profile=profile, cluster=cluster, batch=batch, input_as="tensor")
    return make_plan(configured(strategy, options), task)


def _point(at: FigurePoint, plan: Plan, timings: TimingSource) -> Record:
    """Seconds by the source, by the clock and by the strategy's own formula, and the decision."""
    assert plan.estimate is not None, "make_plan prices every plan"
    decided = {key: value for key, value in plan.decision.items() if key != "iteration_s"}
    others = {"clock_s": plan.estimate.iteration_s, "formula_s": plan.decision.get("iteration_s")}
    return {**timings.time(at, plan), **others, "decision": decided}


def _planning_times(name: str, network: str, progress: Progress) -> Record:
    """Seconds of a planning: Algorithm 1 and the exact search."""
    progress(f"Table II, {name}")
    profile, cluster = paper.catalogue_profile(network), paper.machines(3.5)
    plans = {method: _plan("hiertrain", profile, cluster, BATCH, method=method) for method in ("lp", "exact")}
    return {
        "layers": len(profile.layers),
        "algorithm_1_s": plans["lp"].plan_s,
        "exact_s": plans["exact"].plan_s,
        "algorithm_1_total_s": plans["lp"].decision["iteration_s"],
        "exact_total_s": plans["exact"].decision["iteration_s"],
    }
