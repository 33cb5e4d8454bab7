"""HierTrain: three workers share the first layers of the network and the samples of a batch.

Worker_o trains the whole network with b_o samples, worker_s layers 1 to m_s with b_s, worker_l layers 1 to m_l with
b_l. Outputs go to worker_o, which continues with them, and gradients are averaged there. The paper's formula for the
time of an iteration, T_total, is in ``formula``; the policy that minimises it is found exactly (``exact_search``) or by
the paper's Algorithm 1 (``linear_program``).

    Deyin Liu, Xu Chen, Zhi Zhou, Qing Ling: HierTrain: Fast Hierarchical Edge AI Learning with Hybrid Parallelism in
    Mobile-Edge-Cloud Computing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from palmette.cost.check import forbidden
from palmette.errors import Argument, ArgumentFault, Infeasible, InputError, Message
from palmette.plan.core.choice import best, over_energy
from palmette.plan.core.strategy import Decision, Strategy, Task

if TYPE_CHECKING:
    from palmette.plan.hiertrain.exact_search import Incumbent
    from palmette.plan.hiertrain.formula import Policy
    from palmette.plan.hiertrain.problem import HierTrainProblem

METHODS = ("exact", "lp")


@dataclass(frozen=True, kw_only=True)
class HierTrain(Strategy):
    """Minimises T_total over assignments, cuts and batch splits, whatever the goal."""

    name: ClassVar[str] = "hiertrain"
    summary: ClassVar[str] = "three workers share the first layers and the batch; minimises HierTrain's T_total"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True

    method: Literal["exact", "lp"] = field(
        default="exact",
        metadata={"help": "The optimum, or the paper's Algorithm 1: a linear program per pair of cuts."},
    )
    prune: bool = field(
        default=True, metadata={"help": "Skip cuts that cannot be the best; the decision stays the same."}
    )

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(ArgumentFault("method", self.method, f"expected one of {', '.join(METHODS)}"))
        from palmette.plan.hiertrain import exact_search  # noqa: F401 -- importing is not part of plan_s

        if self.method == "lp":
            import scipy.optimize  # noqa: F401

    def decide(self, task: Task) -> Decision:
        """Find the policy with the least T_total, and build its tree."""
        from palmette.plan.hiertrain.problem import build_problem
        from palmette.plan.hiertrain.tree import build_tree

        problem = build_problem(task)
        found = self._search(problem, task)
        if found.policy is None:
            raise Infeasible(_explain_infeasible(problem, task))
        phase = best([build_tree(problem, found.policy, task)], task).phase  # checks the deadline
        return Decision((phase,), _variables(problem, found.policy, found.total_s))

    def _search(self, problem: HierTrainProblem, task: Task) -> Incumbent:
        from palmette.plan.hiertrain.exact_search import find_optimum
        from palmette.plan.hiertrain.linear_program import algorithm_1
        from palmette.plan.hiertrain.tree import build_tree

        limited = any(node.limits.energy_j is not None for node in task.cluster.nodes.values())

        def accepts(policy: Policy) -> bool:
            return not limited or not over_energy(build_tree(problem, policy, task), task)

        if self.method == "lp":
            return algorithm_1(problem, accepts=accepts)
        return find_optimum(problem, prune=self.prune, accepts=accepts)


STRATEGIES = (HierTrain,)


def _variables(problem: HierTrainProblem, policy: Policy, total_s: float) -> dict[str, Any]:
    def name(node: int | None) -> str | None:
        return None if node is None else problem.names[node]

    workers = {"worker_o": name(policy.o), "worker_s": name(policy.s), "worker_l": name(policy.l)}
    cuts = {field: getattr(policy, field) for field in ("m_s", "m_l", "b_o", "b_s", "b_l")}
    return {**workers, **cuts, "iteration_s": total_s}


def _explain_infeasible(problem: HierTrainProblem, task: Task) -> Message:
    """Why even the simplest policy, everything on the last node, is not allowed."""
    from palmette.plan.hiertrain.formula import Policy
    from palmette.plan.hiertrain.tree import build_tree

    alone = Policy(len(problem.names) - 1, None, None, 0, 0, problem.batch, 0, 0)
    phase = build_tree(problem, alone, task)
    faults = [*forbidden(phase, task.evaluator), *over_energy(phase, task)]
    unsolved = Message(Argument("method"), " lp: HiGHS solved no linear program; try exact")
    why = f"alone on {problem.names[-1]}: {faults[0]}" if faults else unsolved
    return Message("no policy of hiertrain is feasible; ", why)
