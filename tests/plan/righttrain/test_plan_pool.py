"""The pool of plans that a choice of deadline picks from."""

from __future__ import annotations

from palmette.plan.core.comparison import planned
from palmette.plan.core.strategy import Task
from palmette.spec.cluster import Cluster, Node, Power, Source
from palmette.spec.goal import Goal, parse_weights
from palmette.spec.learning import Learning
from palmette.spec.link import Link
from palmette.spec.profile import Layer, Profile, Times

MEMORY_BYTES = {"n0": None, "n1": 115.0, "n2": None, "n3": None}
IDLE_W, BUSY_W = {"n0": 2.5, "n1": 1.0, "n2": 1.0, "n3": 2.5}, {"n0": 3.0, "n1": 3.0, "n2": 3.0, "n3": 8.0}
SAMPLES = {"n0": 30, "n1": 22, "n2": 55, "n3": 72}
TIMES = {
    "n0": Times(
        forward_s=(3.0, 1.1099999999999999), backward_s=(6.0, 0.0), update_s=(1.5, 1.5),
        forward_call_s=(3.0, 3.0), backward_call_s=(3.0, 0.6900000000000001),
    ),
    "n1": Times(forward_s=(0.0, 0.09000000000000001), backward_s=(0.2, 0.2), update_s=(0.05, 0.0)),
    "n2": Times(
        forward_s=(0.28, 1.0), backward_s=(2.0, 1.84), update_s=(0.365, 0.5),
        forward_call_s=(0.76, 0.05), backward_call_s=(1.0, 1.0),
    ),
    "n3": Times(
        forward_s=(1.0, 0.49), backward_s=(2.0, 0.0), update_s=(0.0, 0.41),
        forward_call_s=(0.74, 0.67), backward_call_s=(1.0, 0.0),
    ),
}  # fmt: skip


def test_deadlines_are_searched_where_no_tree_fits_on_the_nodes_that_its_bound_takes() -> None:
    links = (
        Link(between=("n0", "n1"), bandwidth_bps=334.8, latency_s=0.3),
        Link(between=("n0", "n2"), up_bps=40.0, down_bps=120.0, latency_s=0.3, energy_j_per_bit=0.01),
        Link(between=("n2", "n3"), bandwidth_bps=300.6, latency_s=2.0, energy_j_per_bit=0.01),
    )
    nodes = {
        name: Node(
            tier="edge",
            memory_bytes=MEMORY_BYTES[name],
            power=Power(idle_w=IDLE_W[name], busy_w=BUSY_W[name]),
            source=Source(samples=SAMPLES[name]),
        )
        for name in TIMES
    }
    layers = (
        Layer(name="l0", parameter_bytes=0.0, output_bytes=5.1),
        Layer(name="l1", parameter_bytes=4.0, output_bytes=5.1, batch_norm_channels=(4,)),
    )
    curve = Learning(
        floor=0.05,
        scale=2.0,
        epoch_exponent=0.3,
        data_exponent=1.0,
        replica_exponent=-0.1,
        start=2.3,
        knee=8.0,
        fitted_on={"epochs": (1.0, 4.0), "data": (1 / 12, 1.0), "replicas": (1.0, 2.0)},
    )
    asked = Task(
        profile=Profile(model="m", input_bytes=6.0, layers=layers, nodes=TIMES),
        cluster=Cluster(nodes=nodes, links=links),
        batch=12,
        goal=Goal(weights=parse_weights("0.5*time+0.5*energy"), loss=2.1663285308228772),
    )
    made = planned("righttrain", asked, {"learning": curve, "alone": True})
    assert made.estimate is not None
    assert made.decision["lower_bound_j"] <= (made.estimate.total_j or 0.0) * (1 + 1e-9)
