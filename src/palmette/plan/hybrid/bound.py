"""A lower bound of what any plan of ``hybrid`` costs on the event clock, by a linear program.

Order and waiting are relaxed, the work stays. With y_ji the samples whose layer i is computed on node j:

    Σ_j y_ji = B                                     every layer sees every sample
    Σ_i y_ji · seconds_ji ≤ T                        a node computes no more than it can in T
    d_ji ≥ y_ji − y_j,i+1,  e_ji ≥ y_j,i+1 − y_ji    samples that leave a node after a layer, or come to it
    Σ_i (d_ji + e_ji) · bits_i ≤ T · links_j         outputs leave by its links, and gradients of what came

``seconds`` hold a sample's forward and backward, and of a call's fixed part and an update at least the fraction y/B,
since a node with any sample of a layer makes the whole call. Layer 0 is raw data at its owner, which has no gradient.
T minimal is the bound of the time. The bound of the energy minimises what nodes draw: idle power of owners for all
of T, of others for as long as they compute or, once they take part, for the bound of the time; and the rest as they
compute. All instances run at their node's CPU limit, as hybrid's do. Money and carbon are bounded in the same way, with
other rates of a node's seconds and bits (``rates``).

T is an iteration in the mean over E epochs. Work of all epochs shares the same nodes and links, so a raw sample counts
its bits over E where it may be kept, since the first epoch sends it once at least, and all its bits where it may not.
A node that raw samples come to may get those of any source: the smallest count.

With few nodes the bound of the time is that of ``integer_bound``, which counts the exchange of replicas as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from palmette.plan.hybrid.integer_bound import integer_time_bound
from palmette.plan.hybrid.pricing import LONGEST_S
from palmette.plan.hybrid.problem import HybridProblem
from palmette.plan.hybrid.rates import NodeRates, Sum, node_rates
from palmette.spec.goal import Quantity

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HybridBounds:
    """Lower bounds of an iteration's seconds, joules, watts, money and grams in the mean over all epochs.

    Energy and power are 0 where a power is not known; money and carbon are those of goals that ask for them.
    """

    time_s: float
    energy_j: float
    power_w: float
    money: float = 0.0
    carbon_g: float = 0.0

    def of(self, quantity: Quantity) -> float:
        """The bound of a quantity of a goal."""
        match quantity:
            case "time":
                return self.time_s
            case "energy":
                return self.energy_j
            case "power":
                return self.power_w
            case "edp":
                return self.energy_j * self.time_s
            case "cost":
                return self.money
            case "carbon":
                return self.carbon_g
        assert_never(quantity)


def lower_bounds(
    problem: HybridProblem, quantities: Iterable[Quantity] = (), effort: float = 1.0, seconds: float | None = None
) -> HybridBounds:
    """The bounds of a problem's plans; those of money and carbon if they are among the quantities.

    More effort may bring them closer, within so many seconds; without these, the bounds are the same on every machine.
    """
    program = _LinearProgram(problem)
    time_s = max(program.least(program.time_costs()), integer_time_bound(problem, effort, seconds or LONGEST_S))
    idle_w = [problem.power_w(source)[0] for source in problem.samples]
    asked = set(quantities)
    return HybridBounds(
        time_s,
        _least_sum(problem, "energy", time_s),
        sum(idle_w),
        _least_sum(problem, "cost", time_s) if "cost" in asked else 0.0,
        _least_sum(problem, "carbon", time_s) if "carbon" in asked else 0.0,
    )


def _least_sum(problem: HybridProblem, quantity: Sum, time_s: float) -> float:
    """The bound of energy, money or carbon of plans that take at least ``time_s``."""
    program = _LinearProgram(problem)
    return program.least(program.sum_costs(time_s, node_rates(problem, quantity)), time_s)


class _LinearProgram:
    """The linear program. Variables: T, then y, d, e as [node, layer] blocks, then what each node idles for."""

    def __init__(self, problem: HybridProblem) -> None:
        self._problem = problem
        self._nodes = list(dict.fromkeys([*problem.cpu_shares, *problem.samples]))
        self._many, self._depth = len(self._nodes), problem.depth
        self._batch = sum(problem.samples.values())
        self._busy = self._seconds()
        self._rows: list[tuple[dict[int, float], float]] = []
        self._capacities()
        self._flows()

    def _y(self, node: int, layer: int) -> int:
        return 1 + node * self._depth + layer - 1

    def _d(self, node: int, layer: int) -> int:
        return 1 + (self._many + node) * self._depth + layer

    def _e(self, node: int, layer: int) -> int:
        return 1 + (2 * self._many + node) * self._depth + layer

    def _idle(self, node: int) -> int:
        return 1 + 3 * self._many * self._depth + node

    def _seconds(self) -> Floats:
        """Seconds that a sample of a layer costs a node at least, [node, layer]."""
        prices, depth = self._problem.task.evaluator, self._depth
        table = np.zeros((self._many, depth))
        for j, name in enumerate(self._nodes):
            if name not in self._problem.cpu_shares:
                continue
            seconds = prices.seconds(name)
            once = np.diff(seconds.forward_call) + np.diff(seconds.backward_call)
            once += np.diff(seconds.update) / prices.optimizer.accumulate
            sample = np.diff(seconds.forward) + np.diff(seconds.backward)
            table[j] = (sample + once / self._batch) / self._problem.cpu_shares[name]
        return table

    def _sizes_bits(self) -> tuple[Floats, Floats]:
        """Bits of a sample's output of each layer, and of its gradient."""
        sizes, ratio = self._problem.task.evaluator.sizes(), 8 * self._problem.ratio
        outputs, gradients = (np.array(each[: self._depth]) for each in (sizes.output_bytes, sizes.gradient_bytes))
        return outputs * ratio, gradients * ratio

    def _raw_bits(self, sender: str | None = None) -> float:
        """Mean bits of a raw sample that leaves a node, 0 where it owns none; of the smallest without a sender."""
        sources = [name for name in self._problem.samples if sender is None or name == sender]
        return min(map(self._problem.mean_sample_bits, sources), default=0.0)

    def _capacities(self) -> None:
        outputs, gradients = self._sizes_bits()
        leaving, arriving = dict.fromkeys(self._nodes, 0.0), dict.fromkeys(self._nodes, 0.0)
        for link in self._problem.task.cluster.links:
            for sender, receiver in itertools.permutations(link.between):
                if sender in leaving:
                    leaving[sender] += link.from_bps(sender)
                if receiver in arriving:
                    arriving[receiver] += link.from_bps(sender)
        for j, name in enumerate(self._nodes):
            self._rows.append(({0: -1.0, **{self._y(j, i + 1): s for i, s in enumerate(self._busy[j]) if s}}, 0.0))
            for raw, back, raw_bits, bps in (
                (self._d, self._e, self._raw_bits(name), leaving[name]),
                (self._e, self._d, self._raw_bits(), arriving[name]),
            ):
                row = {0: -bps / 1e6, raw(j, 0): raw_bits / 1e6}
                for i in range(1, self._depth):
                    row[raw(j, i)], row[back(j, i)] = outputs[i] / 1e6, gradients[i] / 1e6
                self._rows.append((row, 0.0))

    def _flows(self) -> None:
        for j, name in enumerate(self._nodes):
            owned = float(self._problem.samples.get(name, 0))
            self._rows.append(({self._y(j, 1): -1.0, self._d(j, 0): -1.0}, -owned))
            self._rows.append(({self._y(j, 1): 1.0, self._e(j, 0): -1.0}, owned))
            for i in range(1, self._depth):
                here, then = self._y(j, i), self._y(j, i + 1)
                self._rows.append(({here: 1.0, then: -1.0, self._d(j, i): -1.0}, 0.0))
                self._rows.append(({here: -1.0, then: 1.0, self._e(j, i): -1.0}, 0.0))

    def time_costs(self) -> Floats:
        """Costs of the variables that make T the objective."""
        costs = np.zeros(self._idle(self._many))
        costs[0] = 1.0
        return costs

    def sum_costs(self, time_s: float, rates: dict[str, NodeRates]) -> Floats:
        """Costs of the variables that make a sum over nodes the objective; adds the rows of idle nodes."""
        costs = np.zeros(self._idle(self._many))
        (outputs, gradients), batch = self._sizes_bits(), self._batch
        cheapest = self._cheapest_j_per_bit()
        for j, name in enumerate(self._nodes):
            idle, busy, sending = rates[name]
            bit = sending * cheapest[name]
            costs[self._y(j, 1) : self._y(j, 1) + self._depth] += busy * self._busy[j]
            costs[self._d(j, 0)] += bit * self._raw_bits(name)
            costs[self._d(j, 1) : self._d(j, 1) + self._depth - 1] += bit * outputs[1:]
            costs[self._e(j, 1) : self._e(j, 1) + self._depth - 1] += bit * gradients[1:]
            if name in self._problem.samples:
                costs[0] += idle
                continue
            costs[self._idle(j)] = 1.0
            computing = {self._y(j, i + 1): idle * s for i, s in enumerate(self._busy[j])}
            self._rows.append(({self._idle(j): -1.0, **computing}, 0.0))
            for i in range(1, self._depth + 1):
                self._rows.append(({self._idle(j): -1.0, self._y(j, i): idle * time_s / batch}, 0.0))
        return costs

    def _cheapest_j_per_bit(self) -> dict[str, float]:
        cheapest = dict.fromkeys(self._nodes, float("inf"))
        for link in self._problem.task.cluster.links:
            for end in link.between:
                if end in cheapest:
                    cheapest[end] = min(cheapest[end], link.energy_j_per_bit)
        return {name: 0.0 if each == float("inf") else each for name, each in cheapest.items()}

    def least(self, costs: Floats, time_s: float = 0.0) -> float:
        """The least value of the objective; slightly less, since the solver has a tolerance."""
        from scipy.optimize import linprog
        from scipy.sparse import coo_matrix

        entries = [(r, c, v) for r, (row, _) in enumerate(self._rows) for c, v in row.items()]
        rows, columns, values = zip(*entries, strict=True)
        shape = (len(self._rows), len(costs))
        every = [(i, self._y(j, i + 1)) for i in range(self._depth) for j in range(self._many)]
        equal = coo_matrix(([1.0] * len(every), tuple(zip(*every, strict=True))), shape=(self._depth, len(costs)))
        done = linprog(
            costs,
            A_ub=coo_matrix((values, (rows, columns)), shape=shape).tocsr(),
            b_ub=[limit for _, limit in self._rows],
            A_eq=equal.tocsr(),
            b_eq=[float(self._batch)] * self._depth,
            bounds=self._limits(time_s, len(costs)),
            method="highs",
        )
        return max(0.0, float(done.fun) * (1 - 1e-6)) if done.status == 0 else 0.0

    def _limits(self, time_s: float, many: int) -> list[tuple[float, float | None]]:
        """Of each variable: nodes that cannot compute have no samples; what is private stays for its layers."""
        limits: list[tuple[float, float | None]] = [(0.0, None)] * many
        limits[0] = (time_s, None)
        for j, name in enumerate(self._nodes):
            if name not in self._problem.cpu_shares:
                for i in range(self._depth):
                    limits[self._y(j, i + 1)] = (0.0, 0.0)
            elif name in self._problem.private:
                limits[self._y(j, 1)] = (float(self._problem.samples[name]), None)
                if name in self._problem.keeps_labels:
                    limits[self._y(j, self._depth)] = (float(self._problem.samples[name]), None)
        return limits
