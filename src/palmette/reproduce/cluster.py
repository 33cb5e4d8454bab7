"""Gu et al.'s Figs. 5 to 7: how often the best cluster is chosen, what that gains, and what the pre-training costs.

A desktop with a GTX 1050, a Jetson TX2 and a Jetson TX1 of the catalogue, joined two by two; five networks on 32×32
images in batches of 32, 100,000 steps; 1 Gbit/s, 100 and 10 Mbit/s. The table that the choice is made on holds each
device alone and predicted factors, as ``palmette pretrain`` writes them. The truth is the event clock's, with all
devices of a cluster at once (``cluster_truth``): ``simulated``. The choice is also made four times on tables as noisy
as short measurements are: ``accuracy_noisy``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.measure.building import built_here
from palmette.measure.factors import Alone, Factors, predicted
from palmette.measure.profiling import profile_network
from palmette.plan.cluster_choice import ClusterChoice
from palmette.plan.making import make_plan
from palmette.plan.strategy import Ask
from palmette.reproduce.cluster_claims import claims
from palmette.reproduce.cluster_truth import Pace, paces
from palmette.spec.cluster import Cluster, Link, Node, Source
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance
from palmette.zoo.equip import equipped
from palmette.zoo.models import load_network

BATCH, STEPS, PRETRAINED = 32, 100_000, 500
# The paper repeats each case four times; windows of steps agree within 2%, its regression is off by up to 2.2%.
REPETITIONS, STEP_NOISE, POWER_NOISE = 4, 0.02, 0.022
MACHINES = {"desktop": "i7-2600-gtx-1050", "jtx2": "jetson-tx2", "jtx1": "jetson-tx1"}
MODELS = {
    "AlexNet": "alexnet?classes=10&size=32",
    "CIFAR10": "cifar10",
    "NiN": "nin",
    "ResNet": "resnet18?classes=10&size=32",
    "SqueezeNet": "squeezenet?classes=10&size=32",
}
MBPS = (1000.0, 100.0, 10.0)
GOALS = ("time", "power", "energy", "edp")

Told = Callable[[str], None]
Record = dict[str, Any]
Devices = tuple[str, ...]


class Figures(NamedTuple):
    """Seconds and watts of a cluster's whole training."""

    time_s: float
    power_w: float

    def of(self, goal: str) -> float:
        """What a goal minimises."""
        values = {"time": 1.0, "power": self.power_w / self.time_s, "energy": self.power_w}
        return self.time_s * values.get(goal, self.power_w * self.time_s)


def machines(mbps: float) -> Cluster:
    """The paper's three machines at a bandwidth."""
    nodes = {
        name: Node(tier="edge", hardware=hardware, source=Source(samples=50_000)) for name, hardware in MACHINES.items()
    }
    links = tuple(Link(between=pair, bandwidth_bps=mbps * 1e6) for pair in combinations(MACHINES, 2))
    return equipped(Cluster(nodes=nodes, links=links))


def reproduce(told: Told = lambda _: None) -> Record:
    """All cases, what comes of them, and the paper's claims beside; ``told`` hears what is being worked on."""
    cases = [case for name, model in MODELS.items() for case in cases_of(name, model, told)]
    made: Record = {
        "format": "palmette.reproduction/1",
        "paper": "Gu et al.",
        "how": "simulated: the event clock with the catalogue's layer times; power modelled",
        "batch": BATCH,
        "steps": STEPS,
        "cases": cases,
        **summary(cases),
    }
    return made | {"claims": claims(made)}


def cases_of(name: str, model: str, told: Told) -> Iterator[Record]:
    """The cases of a network: a bandwidth each."""
    network = load_network(model)
    profile = profile_network(network, machines(MBPS[0]))
    built = built_here(model, None, BATCH)
    for mbps in MBPS:
        told(f"{name} at {mbps:g} Mbit/s")
        prices = evaluator(profile, machines(mbps))
        steps_s = {device: prices.price(forest((device,), profile)).iteration_s for device in MACHINES}
        builds_s = {device: built.build_s * step_s / built.pass_s for device, step_s in steps_s.items()}
        truth = {members: true_figures(members, prices, steps_s, builds_s) for members in clusters()}
        exact = case(name, mbps, pretrained(prices, steps_s, builds_s), truth)
        rng = np.random.default_rng([list(MODELS).index(name), int(mbps)])
        tables = [pretrained(prices, disturbed(steps_s, rng), builds_s, rng) for _ in range(REPETITIONS)]
        yield exact | {"repeated": [case(name, mbps, table, truth)["goals"] for table in tables]}


def clusters() -> list[Devices]:
    """The seven configurations."""
    return [members for many in (1, 2, 3) for members in combinations(MACHINES, many)]


def forest(members: Devices, profile: Profile) -> Phase:
    """A whole chain on each member, with the parameter server on the first, which is the fastest."""
    last = len(profile.layers)
    return Phase(
        sync="async",
        server=members[0],
        sources=tuple(Feed(node=name, samples=BATCH, into=name) for name in members),
        instances=tuple(Instance(id=name, layers=(1, last), node=name) for name in members),
    )


def disturbed(steps_s: dict[str, float], rng: np.random.Generator) -> dict[str, float]:
    """Times of a step as a short measurement finds them."""
    return {name: step_s * float(rng.normal(1.0, STEP_NOISE)) for name, step_s in steps_s.items()}


def pretrained(
    prices: Evaluator, steps_s: dict[str, float], builds_s: dict[str, float], rng: np.random.Generator | None = None
) -> Measurements:
    """The table that a pre-training would write; with ``rng``, as far off in power as the paper's regression."""
    weights = sum(layer.parameter_bytes for layer in prices.profile.layers)
    server = min(steps_s, key=steps_s.__getitem__)
    devices = {}
    for name, step_s in steps_s.items():
        power = prices.cluster.nodes[name].power
        assert power is not None
        route = prices.route(name, server)
        power_w = power.busy_w * (1.0 if rng is None else float(rng.normal(1.0, POWER_NOISE)))
        alone = Alone(step_s, power_w, power.idle_w)
        factors = Factors()
        if name != server:
            factors = predicted(alone, weights, route.bandwidth_bps, route.latency_s)
        devices[name] = {"step_s": step_s, "build_s": builds_s[name], "power_w": power_w, "with_server": {}} | {
            field: getattr(factors, field) for field in factors._fields if field != "origin"
        }
    content = {"model": prices.profile.model, "batch": BATCH, "steps": STEPS, "devices": devices}
    return Measurements.model_validate(content)


def true_figures(members: Devices, prices: Evaluator, steps_s: dict[str, float], builds_s: dict[str, float]) -> Figures:
    """Time and power of a cluster by the event clock."""
    if len(members) == 1:
        power = prices.cluster.nodes[members[0]].power
        assert power is not None
        return Figures(builds_s[members[0]] + STEPS * steps_s[members[0]], power.busy_w)
    found = paces(forest(members, prices.profile), prices)
    return Figures(whole_s(found, builds_s), sum(pace.power_w for pace in found.values()))


def whole_s(found: dict[str, Pace], builds_s: dict[str, float]) -> float:
    """Seconds in which devices of these rates take all steps, each from when its model is built."""
    low, high = 0.0, min(builds_s[name] + STEPS / pace.rate for name, pace in found.items())
    for _ in range(100):
        middle = (low + high) / 2
        taken = sum(max(0.0, middle - builds_s[name]) * pace.rate for name, pace in found.items())
        low, high = (middle, high) if taken < STEPS else (low, middle)
    return high


def case(name: str, mbps: float, table: Measurements, truth: dict[Devices, Figures]) -> Record:
    """A network at a bandwidth: what was chosen for each goal, what would have been best, and the cost of asking."""
    rows = {}
    guess: dict[Devices, Figures] = {}
    for goal in GOALS:
        decision = make_plan(ClusterChoice(measurements=table), Ask(goal=Goal(weights=parse_weights(goal)))).decision
        chosen = tuple(decision["devices"])
        guess = {tuple(row["devices"]): Figures(row["time_s"], row["power_w"]) for row in decision["ranking"]}
        order = sorted(truth, key=lambda members: truth[members].of(goal))
        best, second = truth[order[0]].of(goal), truth[order[1]].of(goal)
        rows[goal] = {
            "chosen": chosen,
            "best": order[0],
            "place": order.index(chosen) + 1,
            "gain": 1 - best / second,
            "overhead": overhead(table, truth[chosen]),
        }
    errors = {members: abs(guess[members].time_s / truth[members].time_s - 1) for members in truth}
    return {
        "model": name,
        "mbps": mbps,
        "how": "simulated",
        "goals": rows,
        "time_error": {"+".join(members): error for members, error in errors.items()},
        "truth": {"+".join(members): figures._asdict() for members, figures in truth.items()},
        "estimate": {"+".join(members): guess[members]._asdict() for members in truth},
    }


def overhead(table: Measurements, chosen: Figures) -> float:
    """What asking first adds to the training: all devices pre-train side by side, and those steps count once."""
    asking_s = max(device.build_s + PRETRAINED * device.step_s for device in table.devices.values())
    return asking_s / chosen.time_s - PRETRAINED / STEPS


def summary(cases: list[Record]) -> Record:
    """Accuracy by network and by goal, gains, errors of the estimated time and overheads."""

    def accuracy(rows: list[Record]) -> Record:
        return {
            "cases": len(rows),
            "best": sum(row["place"] == 1 for row in rows) / len(rows),
            "best_two": sum(row["place"] <= 2 for row in rows) / len(rows),
        }

    every = [(each["model"], goal, row) for each in cases for goal, row in each["goals"].items()]
    noisy = [row for each in cases for goals in each.get("repeated", ()) for row in goals.values()]
    models = dict.fromkeys(each["model"] for each in cases)
    errors = {m: [e for each in cases if each["model"] == m for e in each["time_error"].values()] for m in models}
    return {
        "accuracy": accuracy([row for _, _, row in every]),
        "accuracy_noisy": accuracy(noisy) if noisy else None,
        "accuracy_by_model": {m: accuracy([row for model, _, row in every if model == m]) for m in models},
        "accuracy_by_goal": {g: accuracy([row for _, goal, row in every if goal == g]) for g in GOALS},
        "gain_by_goal": {g: _mean([row["gain"] for _, goal, row in every if goal == g]) for g in GOALS},
        "time_error_by_model": {m: _mean(found) for m, found in errors.items()},
        "overhead_by_model": {
            m: _mean([each["goals"]["time"]["overhead"] for each in cases if each["model"] == m]) for m in models
        },
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
