"""What a node adds to the energy, the money and the carbon of a plan: all are sums of the same form.

Σ over nodes:  idle · seconds of the plan  +  busy · seconds that it computes  +  sending · joules that it sends
"""

from __future__ import annotations

from typing import Literal, NamedTuple, assert_never

from palmette.cost.spending import carbon_g_per_j, price_per_s
from palmette.plan.hybrid.problem import HybridProblem

Sum = Literal["energy", "cost", "carbon"]


class NodeRates(NamedTuple):
    """Of a second of a plan that a node takes part in, of a second more that it computes, and of a joule it sends."""

    idle: float
    busy: float
    sending: float


def node_rates(problem: HybridProblem, quantity: Sum) -> dict[str, NodeRates]:
    """The rates of all nodes; 0 where they are not known."""
    return {name: _rates(problem, name, quantity) for name in problem.task.cluster.nodes}


def _rates(problem: HybridProblem, node: str, quantity: Sum) -> NodeRates:
    (idle_w, busy_w), cluster = problem.power_w(node), problem.task.cluster
    match quantity:
        case "energy":
            return NodeRates(idle_w, busy_w, 1.0)
        case "cost":
            return NodeRates(price_per_s(cluster, node), 0.0, 0.0)
        case "carbon":
            grams = carbon_g_per_j(cluster, node) or 0.0
            return NodeRates(idle_w * grams, busy_w * grams, grams)
    assert_never(quantity)
