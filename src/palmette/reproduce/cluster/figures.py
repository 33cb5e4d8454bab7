"""Gu et al.'s Figs. 5 to 7: how often the best cluster is chosen, what that gains, and what the pre-training costs.

A desktop with a GTX 1050, a Jetson TX2 and a Jetson TX1 of the catalogue, joined two by two; five networks on 32×32
images in batches of 32, 100,000 steps; 1 Gbit/s, 100 and 10 Mbit/s. The table that the choice is made on holds each
device alone and predicted factors, as ``palmette pretrain`` writes them. The truth is the event clock's, with all
devices of a cluster at once (``cluster_truth``): ``simulated``. The choice is also made four times on tables as noisy
as short measurements are: ``accuracy_noisy``. ``cluster_measured`` has another ground: layer times of this machine,
pre-training and clusters that are really trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations, permutations
from typing import Any, NamedTuple, Protocol

import numpy as np

from palmette.cost.estimate import evaluator
from palmette.cost.evaluate import Evaluator
from palmette.cost.routes import Route
from palmette.measure.bandwidth import MeasuredLink as Way
from palmette.measure.build_time import measure_build_time
from palmette.measure.communication_factors import CommunicationFactors, StandaloneDevice, predict_factors
from palmette.measure.profiling import profile_network
from palmette.plan.cluster.strategy import ClusterChoice
from palmette.plan.core.make_plan import make_plan
from palmette.plan.core.strategy import Ask
from palmette.reproduce.cluster.claims import claims
from palmette.reproduce.cluster.truth import Pace, paces
from palmette.spec.cluster import Cluster, Link, Node, Source
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.measurements import Measurements
from palmette.spec.plan import Phase
from palmette.spec.profile import Profile
from palmette.spec.tree import Feed, Instance
from palmette.zoo.hardware_defaults import fill_hardware_defaults
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
Ways = Mapping[tuple[str, str], Route | Way]
"""What is known of the way from one device to another."""


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
    return fill_hardware_defaults(Cluster(nodes=nodes, links=links))


class Ground(Protocol):
    """Where the figures of the cases come from."""

    how: str

    def worlds(self, name: str) -> Iterator[World]:
        """What is known of a network, a bandwidth at a time."""
        ...


class World(NamedTuple):
    """A network at a bandwidth: what its pre-training found out, and what its clusters really take."""

    mbps: float
    alone: dict[str, StandaloneDevice]
    builds_s: dict[str, float]
    ways: Ways
    parameter_bytes: float
    truth: dict[Devices, Figures]
    how: dict[Devices, str]


def reproduce(ground: Ground | None = None, told: Told = lambda _: None) -> Record:
    """All cases, what comes of them, and the paper's claims beside; ``told`` hears what is being worked on."""
    ground = ground or Catalogue(told)
    cases = [case(name, world) for name in MODELS for world in ground.worlds(name)]
    made: Record = {
        "format": "palmette.reproduction/1",
        "paper": "Gu et al.",
        "how": ground.how,
        "batch": BATCH,
        "steps": STEPS,
        "cases": cases,
        **summary(cases),
    }
    return made | {"claims": claims(made)}


class Catalogue:
    """Layer times of the catalogue, and the event clock."""

    how = "simulated: the event clock with the catalogue's layer times; power modelled"

    def __init__(self, told: Told = lambda _: None) -> None:
        self._told = told

    def worlds(self, name: str) -> Iterator[World]:
        """A device alone takes what the plan's estimate says, and links are as fast as declared."""
        profile = profile_network(load_network(MODELS[name]), machines(MBPS[0]))
        built = measure_build_time(MODELS[name], None, BATCH)
        for mbps in MBPS:
            self._told(f"{name} at {mbps:g} Mbit/s")
            prices = evaluator(profile, machines(mbps))
            alone = {device: declared(device, prices) for device in MACHINES}
            builds_s = {device: built.build_s * each.step_s / built.pass_s for device, each in alone.items()}
            ways = {pair: prices.route(*pair) for pair in permutations(MACHINES, 2)}
            found = {members: true_figures(members, prices, builds_s) for members in clusters()}
            weights = sum(layer.parameter_bytes for layer in profile.layers)
            yield World(mbps, alone, builds_s, ways, weights, found, dict.fromkeys(found, "simulated"))


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


def declared(device: str, prices: Evaluator) -> StandaloneDevice:
    """A device alone, by the event clock and its declared power."""
    power = prices.cluster.nodes[device].power
    assert power is not None, "the catalogue knows every machine's"
    return StandaloneDevice(prices.price(forest((device,), prices.profile)).iteration_s, power.busy_w, power.idle_w)


def disturbed(alone: dict[str, StandaloneDevice], rng: np.random.Generator) -> dict[str, StandaloneDevice]:
    """Devices as a short measurement and a regression would find them."""
    return {
        name: StandaloneDevice(
            each.step_s * float(rng.normal(1.0, STEP_NOISE)),
            each.power_w * float(rng.normal(1.0, POWER_NOISE)),
            each.idle_w,
        )
        for name, each in alone.items()
    }


def pretrained(name: str, world: World, alone: dict[str, StandaloneDevice]) -> Measurements:
    """The table that a pre-training writes for devices that do this alone."""
    server = min(alone, key=lambda device: alone[device].step_s)
    devices = {}
    for device, each in alone.items():
        factors = CommunicationFactors()
        if device != server:
            way = world.ways[device, server]
            factors = predict_factors(each, world.parameter_bytes, way.bandwidth_bps, way.latency_s)
        known = {"step_s": each.step_s, "build_s": world.builds_s[device], "power_w": each.power_w, "with_server": {}}
        devices[device] = known | {field: getattr(factors, field) for field in factors._fields if field != "origin"}
    return Measurements.model_validate({"model": name, "batch": BATCH, "steps": STEPS, "devices": devices})


def true_figures(members: Devices, prices: Evaluator, builds_s: dict[str, float]) -> Figures:
    """Time and power of a cluster by the event clock."""
    if len(members) == 1:
        alone = declared(members[0], prices)
        return Figures(builds_s[members[0]] + STEPS * alone.step_s, alone.power_w)
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


def case(name: str, world: World) -> Record:
    """A network at a bandwidth: what was chosen for each goal, what would have been best, and the cost of asking."""
    table = pretrained(name, world, world.alone)
    rng = np.random.default_rng([list(MODELS).index(name), int(world.mbps)])
    noisy = [pretrained(name, world, disturbed(world.alone, rng)) for _ in range(REPETITIONS)]
    guess = {
        tuple(row["devices"]): Figures(row["time_s"], row["power_w"]) for row in _decided(table, "time")["ranking"]
    }
    return {
        "model": name,
        "mbps": world.mbps,
        "how": _by_cluster(world.how),
        "goals": choices(table, world.truth),
        "repeated": [choices(each, world.truth) for each in noisy],
        "time_error": _by_cluster({m: abs(guess[m].time_s / true.time_s - 1) for m, true in world.truth.items()}),
        "truth": _by_cluster({members: true._asdict() for members, true in world.truth.items()}),
        "estimate": _by_cluster({members: guess[members]._asdict() for members in world.truth}),
    }


def choices(table: Measurements, truth: dict[Devices, Figures]) -> Record:
    """For each goal which cluster was chosen, and which place it has in the truth."""
    rows = {}
    for goal in GOALS:
        chosen = tuple(_decided(table, goal)["devices"])
        order = sorted(truth, key=lambda members: truth[members].of(goal))
        best, second = truth[order[0]].of(goal), truth[order[1]].of(goal)
        rows[goal] = {
            "chosen": chosen,
            "best": order[0],
            "place": order.index(chosen) + 1,
            "gain": 1 - best / second,
            "overhead": overhead(table, truth[chosen]),
        }
    return rows


def _decided(table: Measurements, goal: str) -> Record:
    return make_plan(ClusterChoice(measurements=table), Ask(goal=Goal(weights=parse_weights(goal)))).decision


def _by_cluster(values: dict[Devices, Any]) -> Record:
    return {"+".join(members): value for members, value in values.items()}


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
    errors = [(c["model"], c["how"][m], error) for c in cases for m, error in c["time_error"].items()]
    trained = [model for model, how, _ in errors if how == "measured"]
    return {
        "accuracy": accuracy([row for _, _, row in every]),
        "accuracy_noisy": accuracy(noisy) if noisy else None,
        "accuracy_by_model": {m: accuracy([row for model, _, row in every if model == m]) for m in models},
        "accuracy_by_goal": {g: accuracy([row for _, goal, row in every if goal == g]) for g in GOALS},
        "gain_by_goal": {g: _mean([row["gain"] for _, goal, row in every if goal == g]) for g in GOALS},
        "time_error_by_model": {m: _mean([e for model, _, e in errors if model == m]) for m in models},
        "time_error_measured": {
            m: _mean([e for model, how, e in errors if (model, how) == (m, "measured")]) for m in dict.fromkeys(trained)
        },
        "clusters": {how: sum(how == each for _, each, _ in errors) for how in ("measured", "simulated")},
        "overhead_by_model": {
            m: _mean([each["goals"]["time"]["overhead"] for each in cases if each["model"] == m]) for m in models
        },
    }


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
