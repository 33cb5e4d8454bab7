"""RightTrain's Fig. 3: energy, learning time, epochs and data against the deadline, for three strategies.

AlexNet on CIFAR-sized input, four sources on mobile nodes, a fifth mobile node without data, an edge server and a cloud
server. The paper gives neither its machines, nor its links, nor its K(y, x, ε), nor its deadlines; here the machines
are the catalogue's, layer times are its roofline's, and links, curve and batch are those below. AlexNet is cut into
four blocks, so that the optimum can be searched for exactly, as the paper does by brute force.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from palmette.errors import PalmetteError
from palmette.measure.profiling import profile_network
from palmette.plan.core.make_plan import configured, make_plan
from palmette.plan.core.parallel import run_parallel
from palmette.plan.core.strategy import Task
from palmette.reproduce.progress import Progress, Record, silent
from palmette.reproduce.righttrain.claims import claims
from palmette.spec.cluster import Cluster, Link, Node, Power, Source, Tier
from palmette.spec.goal import Goal
from palmette.spec.learning import Learning
from palmette.spec.plan import Plan
from palmette.spec.profile import Layer, Profile, Times
from palmette.zoo.hardware import hardware
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import load_network

NETWORK = "alexnet?classes=10&size=32"
BLOCKS = ("pool1", "pool2", "pool5")
# Typical seconds of all figures on two cores; said before anything is known of this machine.
TYPICAL_S = 60.0
BATCH = 64
LOSS = 0.3
CURVE = Learning(floor=0.05, scale=2.2, epoch_exponent=0.5, data_exponent=0.6, replica_exponent=0.05)
STRATEGIES = ("righttrain", "split-learning", "righttrain-optimum")
_OPTIONS = {"righttrain": {"alone": True, "epsilon": 0.0}}  # the paper compares it with these only
# Deadlines in parts of what split learning takes at its quickest.
DEADLINES = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
PANELS = {
    "energy": ("total_j", "megajoules of the whole training", 1e6),
    "time": ("total_s", "hours of the whole training", 3600.0),
    "epochs": ("epochs", "epochs", 1.0),
    "data": ("data_fraction", "fraction of the data in use", 1.0),
}


def machines() -> Cluster:
    """Five mobile nodes, four of them with a quarter of CIFAR-10, behind an edge server and a cloud server."""
    data = Source(samples=12_500, private=True)
    nodes = {f"mobile{k}": _node("device", "raspberry-pi-4", data) for k in range(1, 5)}
    nodes["mobile5"] = _node("device", "raspberry-pi-4")
    nodes["edge"] = _node("edge", "nuc-i3-7100u-4")
    nodes["cloud"] = _node("cloud", "i7-2600-gtx-1050")
    links = [
        Link(between=(name, "edge"), bandwidth_bps=50e6, latency_s=0.002, energy_j_per_bit=50e-9)
        for name in nodes
        if name.startswith("mobile")
    ]
    links.append(Link(between=("edge", "cloud"), bandwidth_bps=200e6, latency_s=0.01, energy_j_per_bit=20e-9))
    return fill_hardware_defaults(Cluster(nodes=nodes, links=tuple(links)))


def _node(tier: Tier, name: str, data: Source | None = None) -> Node:
    """A machine of the catalogue whose power grows with the cube of the share in use, as with its clock rate."""
    machine = hardware(name)
    power = Power(idle_w=machine.idle_w, busy_w=machine.busy_w, exponent=3.0)
    return Node(tier=tier, hardware=name, power=power, source=data)


def blocks(profile: Profile, after: Sequence[str]) -> Profile:
    """A profile with its layers taken together: a block ends with each of the named layers, and with the last."""
    names = [layer.name for layer in profile.layers]
    ends = [*(names.index(name) + 1 for name in after), len(names)]
    runs = list(zip([0, *ends[:-1]], ends, strict=True))

    def summed(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(sum(values[first:last]) for first, last in runs)

    layers = tuple(
        Layer(
            name=f"{profile.layers[first].name}…{profile.layers[last - 1].name}",
            parameter_bytes=sum(layer.parameter_bytes for layer in profile.layers[first:last]),
            output_bytes=profile.layers[last - 1].output_bytes,
            flops=sum(layer.flops for layer in profile.layers[first:last]),
            activation_bytes=sum(layer.kept_bytes for layer in profile.layers[first:last]),
        )
        for first, last in runs
    )
    nodes = {
        name: Times(
            forward_s=summed(times.forward_s),
            backward_s=summed(times.backward_s),
            update_s=summed(times.update_s),
            forward_call_s=summed(times.forward_call_s or (0.0,) * len(profile.layers)),
            backward_call_s=summed(times.backward_call_s or (0.0,) * len(profile.layers)),
            source=times.source,
        )
        for name, times in profile.nodes.items()
    }
    return profile.model_copy(update={"layers": layers, "nodes": nodes, "variants": {}})


def reproduce(progress: Progress = silent) -> Record:
    """Fig. 3 and the claims about it."""
    cluster = machines()
    profile = blocks(profile_network(load_network(NETWORK), cluster), BLOCKS)
    quick = _plan("split-learning", profile, cluster, None)
    unit_s = quick.decision["total_s"]
    progress("Fig. 3, the search that all deadlines share")
    _point("righttrain", profile, cluster, DEADLINES[0] * unit_s)
    progress(f"Fig. 3, deadlines from {DEADLINES[0] * unit_s / 3600:.3g} to {DEADLINES[-1] * unit_s / 3600:.3g} h")
    jobs = [partial(_point, name, profile, cluster, part * unit_s) for name in STRATEGIES for part in DEADLINES]
    points = iter([done.unwrap() for done in run_parallel(jobs)])
    rows: dict[str, list[Record]] = {name: [next(points) for _ in DEADLINES] for name in STRATEGIES}
    made: Record = {
        "format": "palmette.reproduction/1",
        "paper": "RightTrain",
        "network": NETWORK,
        "layers": [layer.name for layer in profile.layers],
        "batch": BATCH,
        "loss": LOSS,
        "learning": CURVE.model_dump(mode="json"),
        "layer_times": "modelled: the catalogue's roofline",
        "figures": {f"3 {panel}": _figure(panel, rows, unit_s) for panel in PANELS},
    }
    return made | {"claims": claims(made)}


def _figure(panel: str, rows: dict[str, list[Record]], unit_s: float) -> Record:
    key, label, unit = PANELS[panel]
    return {
        "title": panel,
        "x": [round(part * unit_s / 3600) for part in DEADLINES],
        "x_label": "deadline, hours",
        "y_label": label,
        "series": {
            name: [None if point["failed"] else point[key] / unit for point in points] for name, points in rows.items()
        },
        "points": rows,
    }


def _point(name: str, profile: Profile, cluster: Cluster, deadline_s: float) -> Record:
    try:
        decision = _plan(name, profile, cluster, deadline_s).decision
    except PalmetteError as error:
        return {"failed": str(error)}
    keys = ("epochs", "data_fraction", "total_s", "total_j", "mapping", "cpu", "data")
    return {"failed": None} | {key: decision[key] for key in keys} | {"gap": decision.get("gap")}


def _plan(name: str, profile: Profile, cluster: Cluster, deadline_s: float | None) -> Plan:
    goal = Goal(weights={"energy": 1.0}, deadline_s=deadline_s, loss=LOSS)
    return make_plan(
        configured(name, {"learning": CURVE} | _OPTIONS.get(name, {})),
        Task(profile=profile, cluster=cluster, batch=BATCH, goal=goal, input_as="tensor"),
    )
