"""A pipeline of three stages with six microbatches in every order: seconds on a testbed, and bytes beside weights.

The bytes are those of the tensors that are alive at once while a node's calls are made in the order of the event clock,
in this process, beside weights; the sums of the weights' gradients, and those that wait for their turn, are among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, get_args

import torch
from torch import Tensor

from benchmarks.fidelity.asynchronous import Case
from palmette.cost.evaluate import Evaluator
from palmette.cost.sizes import Run
from palmette.cost.steps import GRADIENT_CALLS, Kind, Step
from palmette.measure.profiling import profile_network
from palmette.runtime.options import Options
from palmette.runtime.worker.accumulation import SummingCompute
from palmette.runtime.worker.compute import Compute
from palmette.spec.cluster import Cluster
from palmette.spec.plan import Order, Phase, Plan
from palmette.spec.profile import Profile
from palmette.zoo.capture import as_bundle
from palmette.zoo.capture.bundle import Bundle
from palmette.zoo.hardware_defaults import fill_hardware_defaults
from palmette.zoo.models import Network, load_network
from palmette.zoo.recipes.objective import classification
from tests.runtime.test_recompute import LiveBytes

MODEL, CLASSES = "mobilenet?classes=10&size=64", 10
STAGES, MICROBATCHES, SAMPLES = ("first", "second", "third"), 6, 2
BANDWIDTH_MBIT = 1000.0
_CALLS = (Kind.FORWARD, *GRADIENT_CALLS, Kind.BACKWARD_WEIGHTS)


def order_cases(orders: Sequence[Order] = get_args(Order)) -> Iterator[Case]:
    """The pipeline in each order, on three equal nodes."""
    network, where = load_network(MODEL), cluster()
    profile = profile_network(network, where, [])
    for order in orders:
        yield MODEL, order, BANDWIDTH_MBIT, _plan(profile, order), profile, where


def cluster() -> Cluster:
    """Three equal nodes in a row."""
    nodes: dict[str, Any] = {name: {"tier": "edge", "hardware": "raspberry-pi-3"} for name in STAGES}
    nodes[STAGES[0]] |= {"source": {"samples": 1500}}
    pairs = [STAGES[:2], STAGES[1:]]
    links = [{"between": list(pair), "bandwidth": f"{BANDWIDTH_MBIT:g} Mbit/s"} for pair in pairs]
    return fill_hardware_defaults(Cluster.model_validate({"nodes": nodes, "links": links}))


def _plan(profile: Profile, order: Order) -> Plan:
    """Stages that take about as long as each other, for each microbatch."""
    times = profile.nodes[STAGES[0]]
    sums = list(accumulate(map(sum, zip(times.forward_s, times.backward_s, strict=True))))
    ends = [1 + min(range(len(sums)), key=lambda k: abs(sums[k] - sums[-1] * part / 3)) for part in (1, 2, 3)]
    sources, instances = [], []
    for m in range(MICROBATCHES):
        ids = [f"{name} {m + 1}" for name in STAGES]
        sources.append({"node": STAGES[0], "samples": SAMPLES, "into": ids[0]})
        for name, own, into, begin, end in zip(STAGES, ids, [*ids[1:], None], [0, *ends], ends, strict=False):
            instances.append({"id": own, "layers": [begin + 1, end], "node": name, "into": into})
    phase = Phase.model_validate({"order": order, "sources": sources, "instances": instances})
    return Plan(model=MODEL, batch=phase.batch, phases=(phase,))


def kept_bytes(plan: Plan, profile: Profile, where: Cluster) -> dict[str, dict[str, float]]:
    """The most bytes beside weights on each node: as estimated, and of tensors in this process."""
    prices, (phase,), network = Evaluator(profile, where), plan.phases, load_network(plan.model)
    ((_, made, played),) = prices.price(phase).played
    peaks, held = prices.peak_bytes(phase), {i.node: i.layers for i in phase.instances}
    found = {}
    for node, (first, last) in held.items():
        weights = sum(layer.parameter_bytes for layer in profile.layers[first - 1 : last])
        calls = sorted(
            (start_s, number)
            for number, (step, start_s) in enumerate(zip(made.steps, played.start_s, strict=True))
            if step.node == node and step.kind in _CALLS
        )
        steps = [made.steps[number] for _, number in calls]
        found[node] = {"estimated": peaks[node] - weights, "measured": _alive(phase, node, network, steps)}
    return found


def _alive(phase: Phase, node: str, network: Network, calls: Sequence[Step]) -> int:
    """The most bytes that the calls of a node hold at once, beside weights."""
    first, last = next(each.layers for each in phase.instances if each.node == node)
    layers = {number: network.layers[number - 1].module for number in range(first, last + 1)}
    compute = SummingCompute(phase, node, layers, Options(), objective=classification(CLASSES))
    labels = torch.zeros(SAMPLES, 8, dtype=torch.uint8)
    entering = _through(network, as_bundle(network.example_batch(SAMPLES)), (1, first - 1))
    leaving = _through(network, entering, (first, last))
    weights = [weight for layer in compute.layers.values() for weight in layer.parameters()]
    with LiveBytes([*weights, *entering, *leaving, labels]) as live:
        for step in calls:
            _made(compute, step, entering, leaving, labels, root=phase.instances[step.instance].into is None)
    return live.most


@torch.no_grad()
def _through(network: Network, values: Bundle, run: Run) -> Bundle:
    """Values behind some layers."""
    for layer in network.layers[run[0] - 1 : run[1]]:
        values = as_bundle(layer.module(*values))
    return values


def _made(compute: Compute, step: Step, entering: Bundle, leaving: Bundle, labels: Tensor, *, root: bool) -> None:
    """Make a call; what it returns is gone as if it had been sent."""
    k, gradient = step.instance, None if root else leaving
    if step.kind is Kind.FORWARD:
        compute.forward(k, [entering], [labels], 0)
    elif step.kind is Kind.BACKWARD:
        compute.backward(k, gradient)
    elif step.kind is Kind.BACKWARD_INPUT:
        compute.backward_input(k, gradient)
    else:
        compute.backward_weights(k)
