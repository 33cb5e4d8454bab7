"""PACT and its rivals: which model to train on which nodes, epoch by epoch, for a loss by a deadline.

Malandrino et al., "Matching DNN Compression and Cooperative Training with Resources and Data Availability", INFOCOM
2023. A problem (``spec/problem``) lists what an epoch of each model on each set of nodes costs and should teach, and
what it takes to change; where there is none, it is made from the variants of a profile, the sets of a cluster and a
predictor, and the plan gets phases that can be run. PACT decides epoch after epoch with estimates and sees what really
came of it; the optimum, StaticLearn and OneSwitch know what will happen (Section VI-B). ``pact_search`` has the parts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.errors import Fault, Infeasible, InputError
from palmette.plan.core.strategy import Ask, Decision, Task
from palmette.spec.problem import Problem

if TYPE_CHECKING:
    from palmette.plan.pact.actions import Moves

Chosen = tuple[list[int], dict[str, Any]]

_MARGINS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.9)
_GLANCE = 5 * 10**6
"""Lengths of stretches that are looked at to say which margin would do."""


@dataclass(frozen=True, kw_only=True)
class _OnProblem(ABC):
    name: ClassVar[str]
    default_goal: ClassVar[str] = "energy"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = False

    problem: Problem | None = field(
        default=None,
        metadata={"help": "Models, nodes, costs and losses (JSON, palmette.pact/1); without it, --profile's variants."},
    )
    predictor: str = field(
        default="shipped",
        metadata={"help": "Who foretells the loss where there is no problem: shipped, power-law or a file."},
    )
    bound: float | None = field(
        default=None, metadata={"help": "The predictor trusts no epoch to lower the loss by more than this."}
    )
    classes: int = field(
        default=10, metadata={"help": "Classes of the data; a fresh network's loss is their logarithm."}
    )

    def __post_init__(self) -> None:
        import palmette.plan.pact.online
        import palmette.plan.pact.problem_from_profile
        import palmette.plan.pact.rivals  # noqa: F401 -- imports are no part of plan_s

        if not 2 <= self.classes <= 10**9:
            raise InputError(Fault("--classes", self.classes, "expected at least 2"))
        if self.bound is not None and self.problem is not None:
            expected = "a problem has its own robust estimates; expected it without --problem"
            raise InputError(Fault("--bound", self.bound, expected))

    def decide(self, task: Ask) -> Decision:
        """Decide the schedule, and play it with the losses that really happen."""
        from palmette.plan.pact.actions import moves_of
        from palmette.plan.pact.phases import phases_of
        from palmette.plan.pact.simulation import played, schedule

        _expect_energy(task)
        problem = self._problem(task)
        moves = moves_of(problem)
        chosen, about = self._moves(problem, moves)
        end = played(problem, moves, chosen)
        stretches = schedule(moves, chosen)
        variables = {"schedule": stretches, "energy_j": end.energy_j, "time_s": end.time_s, "loss": end.loss, **about}
        if not isinstance(task, Task):
            return Decision((), variables, model=problem.start.model)
        return Decision(phases_of(task, stretches), variables)

    def _problem(self, task: Ask) -> Problem:
        """The problem that is given, with the goal's deadline and loss; else one made from profile and cluster.

        Raises:
            InputError: there is neither, or it lacks something.
        """
        if self.problem is not None:
            wishes = {"deadline_s": task.goal.deadline_s, "target_loss": task.goal.loss}
            asked = {field: value for field, value in wishes.items() if value is not None}
            return self.problem.model_copy(update=asked)
        if not isinstance(task, Task):
            expected = f"{self.name} needs it, or --profile and --cluster; expected a file"
            raise InputError(Fault("--problem", "missing", expected))
        from palmette.plan.pact.problem_from_profile import Training, problem_of, target
        from palmette.predict.registry import predictor_of

        target(task.goal)  # before a learned predictor is loaded, which takes seconds
        training = Training(task, predictor_of(self.predictor, self.bound), self.classes)
        return problem_of(training, (math.log(self.classes),))

    @abstractmethod
    def _moves(self, problem: Problem, moves: Moves) -> Chosen:
        """The moves of the schedule, and what else is to be said about it.

        Raises:
            Infeasible: no schedule of this strategy meets target and deadline.
        """


@dataclass(frozen=True, kw_only=True)
class Pact(_OnProblem):
    """PACT itself."""

    name: ClassVar[str] = "pact"
    summary: ClassVar[str] = "smaller models and other nodes while training goes on, planned anew every epoch"

    risk: bool = field(default=True, metadata={"help": "Weigh risk and opportunity when choosing the next move."})
    independent: bool = field(
        default=False,
        metadata={"help": "Take the errors of a problem's estimates for independent: they do not all add up."},
    )

    def _problem(self, task: Ask) -> Problem:
        from palmette.plan.pact.independent_errors import with_independent_errors

        if self.independent and self.problem is None:
            expected = "a predictor's estimates add up as they should; expected --problem with it"
            raise InputError(Fault("--independent", "without --problem", expected))
        problem = super()._problem(task)
        return with_independent_errors(problem) if self.independent else problem

    def _moves(self, problem: Problem, moves: Moves) -> Chosen:
        from palmette.plan.pact.online import decided
        from palmette.plan.pact.optimum import refuse_if_out_of_reach
        from palmette.plan.pact.simulation import played

        chosen = decided(problem, moves, factors=self.risk)
        end = played(problem, moves, chosen)
        if not end.meets(problem):
            refuse_if_out_of_reach(problem, moves)
            raise Infeasible(
                f"target_loss: {problem.target_loss:g}: pact misses it by its predictions; the loss that it reaches "
                f"within {problem.deadline_s:g} s is {end.loss:.6g} (pact-optimum, which knows what happens, meets it)"
            )
        return chosen, {}


class PactOptimum(_OnProblem):
    """The optimum in hindsight."""

    name: ClassVar[str] = "pact-optimum"
    summary: ClassVar[str] = "the cheapest schedule of models and nodes, knowing how the loss will fall"

    def _moves(self, problem: Problem, moves: Moves) -> Chosen:
        from palmette.plan.pact.optimum import optimum

        found, gap = optimum(problem, moves)
        return found, {} if gap is None else {"exact": False, "gap": gap}


@dataclass(frozen=True, kw_only=True)
class StaticLearn(_OnProblem):
    """Equal parts."""

    name: ClassVar[str] = "static-learn"
    summary: ClassVar[str] = "every model lowers the loss by about the same, knowing how it will fall"

    margin: float = field(default=0.05, metadata={"help": "How far each fall may be from their mean, as a fraction."})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.margin < 1:
            raise InputError(Fault("--margin", self.margin, "expected at least 0 and below 1"))

    def _moves(self, problem: Problem, moves: Moves) -> Chosen:
        from palmette.plan.pact.optimum import refuse_if_out_of_reach
        from palmette.plan.pact.rivals import Rivals

        rivals = Rivals(problem, moves)
        chosen = rivals.static_learn(self.margin)
        if chosen is None:
            refuse_if_out_of_reach(problem, moves)
            wider = (margin for margin in _MARGINS if margin > self.margin)
            met = next((m for m in wider if Rivals(problem, moves).static_learn(m, _GLANCE) is not None), None)
            closest = "none with any other was found" if met is None else f"with a margin of {met:g} one does"
            none = "was found that meets" if rivals.spent else "meets"
            raise Infeasible(
                f"--margin: {self.margin:g}: no schedule of equal parts {none} the target in time; {closest}"
            )
        return chosen, {"exact": False} if rivals.spent else {}


class OneSwitch(_OnProblem):
    """One change."""

    name: ClassVar[str] = "one-switch"
    summary: ClassVar[str] = "the cheapest schedule with exactly one change, knowing how the loss will fall"

    def _moves(self, problem: Problem, moves: Moves) -> Chosen:
        from palmette.plan.pact.optimum import refuse_if_out_of_reach
        from palmette.plan.pact.rivals import Rivals

        chosen = Rivals(problem, moves).one_switch()
        if chosen is None:
            refuse_if_out_of_reach(problem, moves)
            raise Infeasible(
                f"target_loss: {problem.target_loss:g}: one change does not suffice within {problem.deadline_s:g} s; "
                "pact-optimum meets it with none or more"
            )
        return chosen, {}


STRATEGIES = (Pact, PactOptimum, StaticLearn, OneSwitch)


def _expect_energy(task: Ask) -> None:
    if task.goal.single != "energy":
        expected = "expected energy: that is what a schedule of models minimises"
        raise InputError(Fault("--goal", str(task.goal), expected))
