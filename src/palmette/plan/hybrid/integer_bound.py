"""A lower bound for few nodes that counts what replicas exchange, by a mixed-integer program (HiGHS).

The linear program of ``bound`` lets a layer be computed a little everywhere, for nothing. Here a node holds a layer or
does not, and what that means is paid: the whole call and update, and the gradients that travel to where the replicas
meet and back. Order and waiting are still relaxed. For node j and k, layer i, and all f, u ≥ 0:

    y_j,i+1 = y_ji − Σ_k f_jki + Σ_k f_kji             samples of a layer on a node; f moves from j to k after layer i
    z_ji ≤ y_ji ≤ B · z_ji                             z is 1 where the node holds the layer, else 0
    Σ_i y_ji · seconds_ji + z_ji · fixed_ji ≤ T        what a node computes
    Σ_k m_ki = 1,  u_jki ≥ z_ji + m_ki − 1             replicas meet at k, and all others send their gradients there
    Σ f_jki · bits_i + u_jki · weights_i ≤ T · rate    what a link carries, by direction, over the routes of the nodes

Raw samples (layer 0) leave their owners only. Those that are kept are sent in the first epoch only: it has a T of its
own, and the bound is the mean over E epochs. The solver's own bound holds wherever it stops.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from palmette.plan.hybrid.problem import HybridProblem

MOST_NODES = 4
_BRANCHES = 400
_MEGA = 1e6


def integer_time_bound(problem: HybridProblem, effort: float, seconds: float) -> float:
    """Seconds that an iteration of any plan takes at least, in the mean over the epochs; 0 for too many nodes."""
    nodes = list(dict.fromkeys([*problem.cpu_shares, *problem.samples]))
    if len(nodes) > MOST_NODES:
        return 0.0
    program, epochs = _IntegerProgram(problem, nodes), problem.epochs
    mean = {program.column("first"): 1 / epochs, program.column("later"): (epochs - 1) / epochs}
    return program.least(mean, max(1, round(effort * _BRANCHES)), seconds)


class _IntegerProgram:
    """Rows and columns of the program; a column is known by what it means."""

    def __init__(self, problem: HybridProblem, nodes: list[str]) -> None:
        self._problem, self._depth, self._nodes = problem, problem.depth, nodes
        self._pairs = list(itertools.permutations(nodes, 2))
        self._batch = float(sum(problem.samples.values()))
        self._columns: dict[tuple[Any, ...], int] = {}
        self._rows: list[tuple[dict[int, float], float, float]] = []
        self._row({self.column("first"): 1.0, self.column("later"): -1.0}, 0.0)
        self._holdings()
        self._computing()
        self._replicas()
        self._links()

    def column(self, *key: str | int) -> int:
        """The column of a variable."""
        return self._columns.setdefault(key, len(self._columns))

    def _row(self, values: dict[int, float], low: float = -np.inf, high: float = np.inf) -> None:
        """A constraint: low ≤ Σ values · columns ≤ high."""
        self._rows.append((values, low, high))

    def _layers(self) -> Iterator[tuple[str, int]]:
        return itertools.product(self._nodes, range(1, self._depth + 1))

    def _holdings(self) -> None:
        """Samples that come to a node or leave it between layers, and whether it holds a layer."""
        for name, i in self._layers():
            moved = {self.column("y", name, i): 1.0}
            for other in self._nodes:
                if other != name:
                    moved |= {self.column("f", name, other, i - 1): 1.0, self.column("f", other, name, i - 1): -1.0}
            owned = float(self._problem.samples.get(name, 0)) if i == 1 else 0.0
            if i > 1:
                moved[self.column("y", name, i - 1)] = -1.0
            self._row(moved, owned, owned)
            y, z = self.column("y", name, i), self.column("z", name, i)
            self._row({y: 1.0, z: -self._batch}, high=0.0)
            self._row({y: 1.0, z: -1.0}, 0.0)

    def _computing(self) -> None:
        for name, share in self._problem.cpu_shares.items():
            seconds = self._problem.task.evaluator.seconds(name)
            fixed = np.diff(seconds.forward_call) + np.diff(seconds.backward_call)
            fixed += np.diff(seconds.update) / self._problem.task.evaluator.optimizer.accumulate
            sample = np.diff(seconds.forward) + np.diff(seconds.backward)
            busy = {self.column("y", name, i): sample[i - 1] / share for i in range(1, self._depth + 1)}
            busy |= {self.column("z", name, i): fixed[i - 1] / share for i in range(1, self._depth + 1)}
            self._row({**busy, self.column("later"): -1.0}, high=0.0)

    def _replicas(self) -> None:
        for i in range(1, self._depth + 1):
            if self._weight_bits(i):
                self._row({self.column("m", name, i): 1.0 for name in self._nodes}, 1.0, 1.0)
                for a, b in self._pairs:
                    sent, held, met = self.column("u", a, b, i), self.column("z", a, i), self.column("m", b, i)
                    self._row({sent: 1.0, held: -1.0, met: -1.0}, -1.0)

    def _weight_bits(self, layer: int) -> float:
        prices = self._problem.task.evaluator
        return 8 * prices.sizes().exchanged_bytes([(layer, layer)]) / prices.optimizer.accumulate

    def _links(self) -> None:
        """What each resource of the links carries, in the first epoch and in later ones."""
        routes = self._problem.task.evaluator.routes
        loads: dict[tuple[str, int], dict[int, float]] = {}
        for a, b in self._pairs:
            route, raw = routes.between(a, b), {self.column("f", a, b, 0): self._problem.sample_bits.get(a, 0.0)}
            for resource in route.resources if route else ():
                for epoch in ("first", "later"):
                    sent = raw if epoch == "first" or a not in self._problem.kept else {}
                    _add(loads.setdefault((epoch, resource), {}), {**self._carried(a, b), **sent})
        for (epoch, resource), bits in loads.items():
            carried = {column: each / _MEGA for column, each in bits.items()}
            self._row({**carried, self.column(epoch): -routes.capacities[resource] / _MEGA}, high=0.0)

    def _carried(self, a: str, b: str) -> dict[int, float]:
        """Bits from one node to another in every epoch: outputs, gradients of what came, and of replicas."""
        sizes, ratio = self._problem.task.evaluator.sizes(), 8 * self._problem.ratio
        carried: dict[int, float] = {}
        for i in range(1, self._depth):
            carried[self.column("f", a, b, i)] = sizes.output_bytes[i] * ratio
            carried[self.column("f", b, a, i)] = sizes.gradient_bytes[i] * ratio
        for i in range(1, self._depth + 1):
            if bits := self._weight_bits(i):
                carried[self.column("u", a, b, i)] = carried[self.column("u", b, a, i)] = bits
        return carried

    def least(self, costs: dict[int, float], branches: int, seconds: float) -> float:
        """A value that the objective cannot be below; slightly less, since the solver has a tolerance."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_matrix

        many = len(self._columns)
        entries = [(r, c, v) for r, (row, _, _) in enumerate(self._rows) for c, v in row.items()]
        rows, columns, values = zip(*entries, strict=True)
        matrix = coo_matrix((values, (rows, columns)), shape=(len(self._rows), many)).tocsr()
        whole, lower, upper = zip(*map(self._kind, self._columns), strict=True)
        with _silent():
            done = milp(
                [costs.get(column, 0.0) for column in range(many)],
                integrality=whole,
                bounds=Bounds(lower, upper),
                constraints=LinearConstraint(matrix, [row[1] for row in self._rows], [row[2] for row in self._rows]),
                options={"node_limit": branches, "time_limit": seconds, "mip_rel_gap": 1e-3},
            )
        bound = done.get("mip_dual_bound")
        return max(0.0, float(bound) * (1 - 1e-6)) if bound is not None and np.isfinite(bound) else 0.0

    def _kind(self, key: tuple[Any, ...]) -> tuple[float, float, float]:
        """Of a variable: whether it is whole, and its limits. What is private stays for its layers."""
        match key:
            case ("z", name, _):
                return 1.0, 0.0, float(name in self._problem.cpu_shares)
            case ("m", _, _):
                return 0.0, 0.0, 1.0
            case ("y", name, layer) if name in self._problem.private:
                stays = layer == 1 or (layer == self._depth and name in self._problem.keeps_labels)
                return 0.0, float(self._problem.samples[name]) if stays else 0.0, np.inf
            case ("f", a, b, layer):
                return 0.0, 0.0, self._most_moved(a, b, layer)
        return 0.0, 0.0, np.inf

    def _most_moved(self, a: str, b: str, layer: int) -> float:
        """Samples that may go from one node to another after a layer: raw ones from their owner."""
        if self._problem.task.evaluator.routes.between(a, b) is None:
            return 0.0
        return self._batch if layer else float(self._problem.samples.get(a, 0))


@contextmanager
def _silent() -> Iterator[None]:
    """Keep standard output clean: HiGHS prints there when it repairs a solution, whatever it is told."""
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    sys.stdout.flush()
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C has buffered goes nowhere, too
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _add(total: dict[int, float], more: dict[int, float]) -> None:
    for column, value in more.items():
        total[column] = total.get(column, 0.0) + value
