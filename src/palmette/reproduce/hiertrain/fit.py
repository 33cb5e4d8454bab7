"""Which machines would make HierTrain's claims true: the inverse problem of its figures.

The paper prints no layer times. Here each of its three machines has the proportions between layers that the catalogue
predicts, and one unknown speed for each network: the seconds of a sample, forward and backward. Every sentence of
section VI that depends on the speeds is a claim, called as in ``claims``; those that hold for any speeds, such as that
HierTrain is never behind all-edge, are left out. A speed-up holds within 5%, an order where one is ahead by at least
0.1%, and what is said to be the same within 0.1%. Five bandwidths are looked at, those at which the claims change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from math import exp, log

from palmette.plan.core.make_plan import configured
from palmette.plan.core.strategy import Strategy, Task
from palmette.plan.hiertrain.exact_search import find_optimum
from palmette.plan.hiertrain.problem import build_problem
from palmette.plan.rivals.chain import iteration_s
from palmette.reproduce.hiertrain import paper
from palmette.reproduce.hiertrain.sensitivity import scaled
from palmette.reproduce.inverse import InverseProblem, Outcome, Outcomes, Values
from palmette.spec.cluster import Cluster
from palmette.spec.profile import Profile

BATCH = 128
MBPS = (1.5, 2.0, 2.5, 3.5, 5.0)
LOWEST, HIGHEST = MBPS[0], MBPS[-1]
BOUNDS_S = {
    "AlexNet": {"device": (1e-2, 1e2), "edge": (1e-3, 1e1), "cloud": (1e-4, 1e1)},
    "LeNet-5": {"device": (1e-4, 1e0), "edge": (1e-5, 1e0), "cloud": (1e-6, 1e0)},
}
"""Seconds of a sample between which each machine is searched."""
SPEED_UP, MARGIN = 0.05, 0.001
FASTER = 3.0, 30.0  # "one order of magnitude"
CORE = 1.05  # "large" and "insignificant" are more and less than this


class Machines:
    """An iteration of a network by any strategy, with machines of these speeds; each is computed when asked for."""

    def __init__(self, network: str, sample_s: Values) -> None:
        self._network, self._sample_s = network, sample_s
        self._known: dict[tuple[str, float, int], float] = {}

    def iteration_s(self, strategy: str, mbps: float, cores: int = 1) -> float:
        """Seconds by the strategy's own formula."""
        asked = (strategy, mbps, cores)
        if asked not in self._known:
            task = Task(profile=self._profile(cores), cluster=_cluster(mbps, cores), batch=BATCH, input_as="tensor")
            self._known[asked] = _iteration_s(strategy, task)
        return self._known[asked]

    def ratio(self, one: str, other: str, mbps: float) -> float:
        """How many times as long one strategy takes as another."""
        return self.iteration_s(one, mbps) / self.iteration_s(other, mbps)

    def _profile(self, cores: int) -> Profile:
        """The catalogue's layer times, scaled; more cores make the edge server faster as they do in the catalogue."""
        known, alone_s = _catalogue(self._network, cores), catalogue_sample_s(self._network)
        nodes = {name: scaled(times, self._sample_s[name] / alone_s[name]) for name, times in known.nodes.items()}
        return known.model_copy(update={"nodes": nodes})


def problem(network: str) -> InverseProblem:
    """The claims about a network, over the seconds of a sample on each machine."""
    return InverseProblem(BOUNDS_S[network], OUTCOMES[network])


def alexnet_outcomes(sample_s: Values) -> Outcomes:
    """Section VI-B and Figs. 7, 9 and 11."""
    made = Machines("AlexNet", sample_s)
    low = [made.iteration_s("hiertrain", LOWEST, cores) for cores in (1, 2, 3, 4)]
    second, fourth = low[0] / low[1], low[2] / low[3]
    cores = max(made.iteration_s("hiertrain", at) / made.iteration_s("hiertrain", at, 4) for at in MBPS if at > 3)
    in_cloud = _same(made.ratio("all-cloud", name, HIGHEST) for name in ("jointdnn", "jointdnn+"))
    plus = _ahead(made, "jointdnn+", "jointdnn", [1.5, 2.0], [])
    return {
        "the cloud computes faster than device and edge server": _order_of_magnitude(sample_s),
        "AlexNet: HierTrain is up to … times faster than all-edge": _speed_up(made, "all-edge", 2.3),
        "AlexNet: HierTrain is up to … times faster than all-cloud": _speed_up(made, "all-cloud", 4.5),
        "AlexNet: JALAD is ahead of HierTrain at": _ahead(made, "jalad", "hiertrain", [1.5, 2.0], MBPS[2:]),
        "AlexNet: JointDNN+ is ahead of JointDNN at": Outcome(
            f"{plus.ours}; at 5 Mbit/s both train in the cloud: {in_cloud.ours}", max(plus.residual, in_cloud.residual)
        ),
        "at 1.5 Mbit/s the second core speeds up much, the fourth little": Outcome(
            f"{second:.2f} times and {fourth:.2f} times", max(0.0, log(CORE / second), log(fourth / CORE))
        ),
        "above 3 Mbit/s cores do not matter": Outcome(f"up to {cores:.2f} times", _beyond(log(cores), MARGIN)),
        "AlexNet: above 3 Mbit/s HierTrain trains in the cloud": _same(
            made.ratio("all-cloud", "hiertrain", at) for at in MBPS if at > 3
        ),
    }


def lenet_outcomes(sample_s: Values) -> Outcomes:
    """Section VI-B and Figs. 8 and 10."""
    made = Machines("LeNet-5", sample_s)
    return {
        "the cloud computes faster than device and edge server": _order_of_magnitude(sample_s),
        "LeNet-5: HierTrain is up to … times faster than all-edge": _speed_up(made, "all-edge", 1.7),
        "LeNet-5: HierTrain is up to … times faster than all-cloud": _speed_up(made, "all-cloud", 6.9),
        "LeNet-5: JALAD and JointDNN+ take": _same(made.ratio("jalad", "jointdnn+", at) for at in MBPS),
        "LeNet-5: JointDNN+ is all-edge at 1.5 Mbit/s and all-cloud at 5": _same(
            [made.ratio("all-edge", "jointdnn+", LOWEST), made.ratio("all-cloud", "jointdnn+", HIGHEST)]
        ),
    }


OUTCOMES = {"AlexNet": alexnet_outcomes, "LeNet-5": lenet_outcomes}


def _order_of_magnitude(sample_s: Values) -> Outcome:
    faster = [sample_s[name] / sample_s["cloud"] for name in ("device", "edge")]
    off = max(0.0, *(max(log(FASTER[0] / each), log(each / FASTER[1])) for each in faster))
    return Outcome(f"{faster[0]:.3g} and {faster[1]:.3g} times", off)


def _speed_up(made: Machines, rival: str, paper_says: float) -> Outcome:
    most = max(made.ratio(rival, "hiertrain", mbps) for mbps in MBPS)
    return Outcome(round(most, 2), _beyond(abs(log(most / paper_says)), SPEED_UP))


def _ahead(made: Machines, one: str, other: str, at: Sequence[float], not_at: Sequence[float]) -> Outcome:
    """One takes less time than another at some bandwidths, and not at others."""
    behind = {mbps: log(made.ratio(one, other, mbps)) for mbps in (*at, *not_at)}
    found = ", ".join(f"{mbps:g}" for mbps, each in behind.items() if each <= -MARGIN)
    off = [*(behind[mbps] + MARGIN for mbps in at), *(-behind[mbps] - MARGIN for mbps in not_at)]
    return Outcome(f"{found} Mbit/s" if found else "no bandwidth", max(0.0, *off))


def _same(ratios: Iterable[float]) -> Outcome:
    off = max(abs(log(each)) for each in ratios)
    return Outcome("yes" if off <= MARGIN else f"up to {exp(off):.2f} times apart", _beyond(off, MARGIN))


def _beyond(off: float, tolerance: float) -> float:
    return max(0.0, off - tolerance)


def catalogue_sample_s(network: str) -> Values:
    """Seconds of a sample, forward and backward, as the catalogue predicts them."""
    nodes = _catalogue(network, 1).nodes
    return {name: sum(times.forward_s) + sum(times.backward_s) for name, times in nodes.items()}


def _iteration_s(strategy: str, task: Task) -> float:
    """The strategy's own formula, without the event clock's."""
    if strategy == "hiertrain":
        return find_optimum(build_problem(task)).total_s
    if strategy in ("all-edge", "all-cloud"):
        (node,) = task.cluster.tier("edge" if strategy == "all-edge" else "cloud")
        return iteration_s([node] * len(task.profile.layers), task, "device")
    return float(_strategy(strategy).decide(task).variables["iteration_s"])


@cache
def _strategy(name: str) -> Strategy:
    return configured(name, {})


@cache
def _catalogue(network: str, cores: int) -> Profile:
    return paper.catalogue_profile(paper.NETWORKS[network], cores)


@cache
def _cluster(mbps: float, cores: int) -> Cluster:
    return paper.machines(mbps, cores)
