"""The time of an iteration as the longest path through its operations, in closed form.

Shares on a node add up to at most its limit, so that no call waits for a CPU, and the evaluator's time is the longest
path through calls of work / share and transfers. Where no two transfers share a link, their times are constants, and
both agree exactly. Where they do, the path without contention is a lower bound, and the evaluator simulates the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmette.cost.evaluate import Evaluator, Price
from palmette.cost.operations import iteration_steps, with_sizes
from palmette.cost.steps import REDUCTIONS
from palmette.plan.righttrain.geometric_program import NO_ENERGY_J, CriticalPath, EnergyCap, GeometricProgram
from palmette.plan.righttrain.layout import MappedInstance
from palmette.plan.righttrain.problem import Floats, RightTrainProblem
from palmette.spec.plan import Phase


@dataclass(frozen=True)
class IterationModel:
    """The operations of an iteration: predecessors, fixed seconds, and the instance and work of calls."""

    predecessors: list[list[int]]
    fixed_s: list[float]
    instance: list[int]
    """The instance that computes; −1 for a transfer."""
    work_s: list[float]
    sending_j: dict[int, float]
    """The energy of what each node sends."""
    instance_work_s: Floats
    """The work of each instance: its seconds with the whole CPU."""

    def critical_path(self, slowness: Floats) -> CriticalPath:
        """The longest path for 1/ρ of each instance."""
        ends: list[float] = []
        before: list[int] = []
        slow = slowness.tolist()
        for needs, fixed, instance, work in zip(
            self.predecessors, self.fixed_s, self.instance, self.work_s, strict=True
        ):
            start, last = 0.0, -1
            for need in needs:
                if ends[need] >= start:
                    start, last = ends[need], need
            before.append(last)
            ends.append(start + (work * slow[instance] if instance >= 0 else fixed))
        at = max(range(len(ends)), key=ends.__getitem__)
        fixed_s, path_s = 0.0, np.zeros(len(slow))
        while at >= 0:
            if self.instance[at] >= 0:
                path_s[self.instance[at]] += self.work_s[at]
            else:
                fixed_s += self.fixed_s[at]
            at = before[at]
        return CriticalPath(fixed_s, path_s)

    def as_simulated(self, price: Price) -> IterationModel:
        """The same with transfers as long as the evaluator simulated them."""
        (_, _, played) = price.played[0]
        lasted = [end - start for start, end in zip(played.start_s, played.end_s, strict=True)]
        return replace(
            self, fixed_s=[0.0 if instance >= 0 else each for instance, each in zip(self.instance, lasted, strict=True)]
        )


def build_model(phase: Phase, evaluator: Evaluator, problem: RightTrainProblem) -> IterationModel:
    """The operations of a phase, without contention between transfers."""
    sizes = evaluator.sizes()
    operations = with_sizes(iteration_steps(phase, sizes, evaluator.routes), phase, sizes)
    index = {name: k for k, name in enumerate(problem.names)}
    whole = phase.model_copy(
        update={"instances": tuple(i.model_copy(update={"cpu_share": 1.0}) for i in phase.instances)}
    )
    calls = evaluator.call_seconds(whole, operations)
    fixed, instance, work = [0.0] * len(operations.steps), [-1] * len(operations.steps), [0.0] * len(operations.steps)
    sending: dict[int, float] = {}
    instance_work = np.zeros(len(phase.instances))
    for k, (step, size) in enumerate(zip(operations.steps, operations.size_bytes, strict=True)):
        if step.to is not None:
            route = evaluator.route(step.node, step.to)
            fixed[k] = route.latency_s + 8 * size / route.bandwidth_bps
            at = index[step.node]
            sending[at] = sending.get(at, 0.0) + 8 * size * route.energy_j_per_bit
        elif step.kind not in REDUCTIONS:
            instance[k], work[k] = step.instance, calls[k]
            instance_work[step.instance] += calls[k]
    return IterationModel([step.after for step in operations.steps], fixed, instance, work, sending, instance_work)


def build_program(
    model: IterationModel, problem: RightTrainProblem, mapped: Sequence[MappedInstance], iterations: int, max_s: float
) -> GeometricProgram:
    """The geometric program of a mapped tree; its variables are the CPU shares.

    With an exponent below 1 nothing is cheaper than a full CPU, so that its dynamic energy is constant.
    """
    nodes = np.array([each.node for each in mapped])
    exponent, limit = np.maximum(problem.exponent[nodes], 1.0), problem.limit[nodes]
    dynamic_j = problem.dynamic_w[nodes] * model.instance_work_s * limit ** np.minimum(problem.exponent[nodes] - 1, 0.0)
    used = dict.fromkeys([*(problem.feed_nodes[f] for p in mapped if p.first == 0 for f in p.group), *nodes.tolist()])
    computing = list(dict.fromkeys(nodes.tolist()))
    caps = []
    for node in used:
        max_j = problem.task.cluster.nodes[problem.names[node]].limits.energy_j
        if max_j is not None:
            left_j = max_j / iterations - model.sending_j.get(node, 0.0)
            caps.append(
                EnergyCap(float(problem.idle_w[node]), np.flatnonzero(nodes == node).tolist(), max(left_j, NO_ENERGY_J))
            )
    return GeometricProgram(
        idle_w=float(problem.idle_w[list(used)].sum()),
        dynamic_j=dynamic_j,
        exponent=exponent,
        nodes=[np.flatnonzero(nodes == node).tolist() for node in computing],
        limits=problem.limit[computing],
        critical_path=model.critical_path,
        max_s=max_s,
        caps=caps,
    )
