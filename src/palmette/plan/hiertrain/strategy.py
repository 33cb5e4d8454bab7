"""HierTrain: three workers share the first layers of the network and the samples of a batch.

Worker_o trains the whole network with b_o samples, worker_s layers 1 to m_s with b_s, worker_l layers 1 to m_l with
b_l; outputs go to worker_o, which goes on with them, and gradients meet there. The paper's formula for the time of an
iteration, T_total, is in ``hiertrain_search.formula``; the policy with the least T_total is found exactly
(``hiertrain_search.exact``), or by the paper's own Algorithm 1 (``hiertrain_search.lp``).

    Deyin Liu, Xu Chen, Zhi Zhou, Qing Ling: HierTrain: Fast Hierarchical Edge AI Learning with Hybrid Parallelism in
    Mobile-Edge-Cloud Computing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from palmette.cost.check import forbidden
from palmette.errors import Fault, Infeasible, InputError
from palmette.plan.core.choice import best, over_energy
from palmette.plan.core.strategy import Decision, Task

if TYPE_CHECKING:
    from palmette.plan.hiertrain.exact import Found
    from palmette.plan.hiertrain.formula import Policy
    from palmette.plan.hiertrain.problem import Ground

METHODS = ("exact", "lp")


@dataclass(frozen=True, kw_only=True)
class HierTrain:
    """The least T_total over assignments, cuts and samples. It minimises time whatever the goal."""

    name: ClassVar[str] = "hiertrain"
    summary: ClassVar[str] = "three workers share the first layers and the samples, the least T_total of HierTrain"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True

    method: Literal["exact", "lp"] = field(
        default="exact", metadata={"help": "The true optimum, or the paper's Algorithm 1: a linear program a cut."}
    )
    prune: bool = field(default=True, metadata={"help": "Pass over cuts that cannot be the best; changes no decision."})

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(Fault("--method", self.method, f"expected one of {', '.join(METHODS)}"))
        from palmette.plan.hiertrain import exact  # noqa: F401 -- imports are no part of plan_s

        if self.method == "lp":
            import scipy.optimize  # noqa: F401

    def decide(self, task: Task) -> Decision:
        """Find the policy with the least T_total, and its tree."""
        from palmette.plan.hiertrain.problem import ground
        from palmette.plan.hiertrain.tree import tree

        numbers = ground(task)
        found = self._search(numbers, task)
        if found.policy is None:
            raise Infeasible(_why_none(numbers, task))
        phase = best([tree(numbers, found.policy, task)], task).phase  # in time for a deadline, if there is one
        return Decision((phase,), _variables(numbers, found.policy, found.total_s))

    def _search(self, numbers: Ground, task: Task) -> Found:
        from palmette.plan.hiertrain.exact import optimum
        from palmette.plan.hiertrain.lp import algorithm_1
        from palmette.plan.hiertrain.tree import tree

        limited = any(node.limits.energy_j is not None for node in task.cluster.nodes.values())

        def accepts(policy: Policy) -> bool:
            return not limited or not over_energy(tree(numbers, policy, task), task)

        if self.method == "lp":
            return algorithm_1(numbers, accepts=accepts)
        return optimum(numbers, prune=self.prune, accepts=accepts)


STRATEGIES = (HierTrain,)


def _variables(numbers: Ground, policy: Policy, total_s: float) -> dict[str, Any]:
    def name(node: int | None) -> str | None:
        return None if node is None else numbers.names[node]

    workers = {"worker_o": name(policy.o), "worker_s": name(policy.s), "worker_l": name(policy.l)}
    cuts = {field: getattr(policy, field) for field in ("m_s", "m_l", "b_o", "b_s", "b_l")}
    return {**workers, **cuts, "iteration_s": total_s}


def _why_none(numbers: Ground, task: Task) -> str:
    """What stands against the simplest plan of all: everything on one node, the best for it."""
    from palmette.plan.hiertrain.formula import Policy
    from palmette.plan.hiertrain.tree import tree

    alone = Policy(len(numbers.names) - 1, None, None, 0, 0, numbers.batch, 0, 0)
    phase = tree(numbers, alone, task)
    faults = [*forbidden(phase, task.evaluator), *over_energy(phase, task)]
    why = f"alone on {numbers.names[-1]}: {faults[0]}" if faults else "--method lp: HiGHS solved no program; try exact"
    return f"no policy of hiertrain may run; {why}"
