"""The task as arrays: computing times of each node, transfer times, and memory.

Arrays over layers are cumulative sums from 0 (no layer) to N, so that a range of layers is a difference. Times are
those at the node's CPU limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palmette.plan.core.memory_budget import memory_budget_bytes
from palmette.plan.core.owner import data_owner, usable_nodes
from palmette.plan.core.strategy import Task

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class HierTrainProblem:
    """Inputs of the formula. Nodes are numbered in the order of the cluster; ``owner`` owns the data."""

    names: list[str]
    owner: int | None
    """The data owner's node; None where it cannot compute and only sends."""
    private: bool
    batch: int
    depth: int
    forward: Floats
    backward: Floats
    forward_call: Floats
    backward_call: Floats
    update: Floats
    """Seconds of layers 1 to m on a node, [node, m]: per sample, per call, and per update."""
    input_s: Floats
    input_latency_s: Floats
    """Seconds per sample from the owner to each node, and the latency of that path; 0 to the owner itself."""
    s_per_byte: Floats
    latency_s: Floats
    """Seconds per byte and latency between two nodes, [node, node]; 0 on one node."""
    output_bytes: Floats
    weight_bytes: Floats
    trainable_bytes: Floats
    activation_bytes: Floats
    """Bytes of layer m's output, and of weights, trained weights and activations of layers 1 to m; weights aside, per
    sample."""
    memory_bytes: Floats
    weight_copies: int
    """Copies of the weights in memory: weights, gradients and the optimizer's state."""


def build_problem(task: Task) -> HierTrainProblem:
    """Convert a task to arrays. Where labels have to stay with the data, the owner is the only worker.

    Raises:
        InputError: there is not exactly one source, or it reaches no node that can compute.
    """
    owner = data_owner(task, "hiertrain")
    owned = task.cluster.nodes[owner].source
    keeps_labels = owned is not None and owned.keeps_labels
    names = usable_nodes(task, owner, [owner] if keeps_labels else None)
    prices, nodes = task.evaluator, task.cluster.nodes
    sizes, depth = prices.sizes(), len(task.profile.layers)
    seconds = [prices.seconds(name) for name in names]
    limits = np.array([[nodes[name].limits.cpu_share] for name in names])

    def sums(field: str) -> Floats:
        table: Floats = np.array([getattr(each, field) for each in seconds]) / limits
        return table

    between = [[prices.route(a, b) for b in names] for a in names]
    inputs = [prices.route(owner, name) for name in names]
    source = nodes[owner].source
    return HierTrainProblem(
        names=names,
        owner=names.index(owner) if owner in names else None,
        private=source is not None and bool(source.private),
        batch=task.batch,
        depth=depth,
        **{field: sums(field) for field in ("forward", "backward", "forward_call", "backward_call", "update")},
        input_s=np.array([8 / route.bandwidth_bps for route in inputs]) * sizes.sample_bytes(owner),
        input_latency_s=np.array([route.latency_s for route in inputs]),
        s_per_byte=np.array([[8 / route.bandwidth_bps for route in row] for row in between]),
        latency_s=np.array([[route.latency_s for route in row] for row in between]),
        output_bytes=np.array(sizes.output_bytes),
        weight_bytes=np.array([sizes.weight_bytes([(1, m)]) for m in range(depth + 1)]),
        trainable_bytes=np.array([sizes.exchanged_bytes([(1, m)]) for m in range(depth + 1)]),
        activation_bytes=np.array([sizes.activation_bytes((1, m), 1) for m in range(depth + 1)]),
        memory_bytes=np.array(memory_budget_bytes(task, names)),
        weight_copies=2 + task.state_copies,
    )
