"""PACT and its rivals: which model to train on which nodes, epoch by epoch, for a loss by a deadline.

Malandrino et al., "Matching DNN Compression and Cooperative Training with Resources and Data Availability", INFOCOM
2023. A problem (``spec/problem``) lists the cost of an epoch of each model on each set of nodes, by how much it should
lower the loss, and the cost of a change; without one, it is built from the variants of a profile, the sets of a cluster
and a predictor, and the plan gets phases that can be run. PACT decides before every epoch by estimates and then sees
the true loss; the optimum, StaticLearn and OneSwitch know the true losses beforehand (Section VI-B).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from palmette.errors import Argument, ArgumentFault, Infeasible, InputError, Message, not_below
from palmette.plan.core.strategy import Decision, PlanRequest, Strategy, Task
from palmette.spec.problem import Problem

if TYPE_CHECKING:
    from palmette.plan.pact.actions import EpochActions
    from palmette.plan.pact.problem_from_profile import PlannedTraining

Chosen = tuple[list[int], dict[str, Any]]

_MARGINS = (0.1, 0.15, 0.2, 0.3, 0.5, 0.9)
_FEW_LENGTHS = 5 * 10**6
"""Lengths of segments that are tried to say which margin would do."""


@dataclass(frozen=True, kw_only=True)
class _PactStrategy(Strategy, ABC):
    name: ClassVar[str]
    default_goal: ClassVar[str] = "energy"
    plans_epochs: ClassVar[bool] = True
    needs_profile: ClassVar[bool] = False

    problem: Problem | None = field(
        default=None,
        metadata={"help": "Tables of models, nodes, costs and losses (JSON); if not given, from --profile."},
    )
    predictor: str = field(
        default="shipped",
        metadata={"help": "Predictor of the loss without --problem: shipped, power-law or a file."},
    )
    bound: float | None = field(
        default=None, metadata={"help": "Largest decrease of the loss to predict for one epoch."}
    )
    bounds: bool = field(
        default=True,
        metadata={"help": "Keep the predictor's robust estimates to the bounds of theory that its curves fit."},
    )
    bounds_from: str | None = field(
        default=None,
        metadata={"help": "Curves that tell the bounds' constants, instead of the predictor's own."},
    )
    classes: int = field(
        default=10, metadata={"help": "Classes in the data; an untrained network's loss is their logarithm."}
    )

    distill: bool = field(
        default=False, metadata={"help": "Let smaller models be distilled where that is better than to prune them."}
    )
    set_classes: str = field(
        default="", metadata={"help": "Classes of sets of nodes whose data has others, such as gold=7,silver=9."}
    )

    def __post_init__(self) -> None:
        import palmette.plan.pact.online
        import palmette.plan.pact.rivals  # noqa: F401 -- imports are no part of plan_s
        from palmette.plan.pact.problem_from_profile import parse_set_classes

        if not 2 <= self.classes <= 10**9:
            raise InputError(ArgumentFault("classes", self.classes, "expected at least 2"))
        parse_set_classes(self.set_classes)
        if self.distill and self.problem is not None:
            expected = Message("a problem lists its own changes; expected it without ", Argument("problem"))
            raise InputError(ArgumentFault("distill", self.distill, expected))
        for option, value in (("bound", self.bound), ("bounds_from", self.bounds_from)):
            if value is not None and self.problem is not None:
                expected = Message("a problem has its own robust estimates; expected it without ", Argument("problem"))
                raise InputError(ArgumentFault(option, value, expected))

    def decide(self, task: PlanRequest) -> Decision:
        """Decide the schedule, and simulate it with the true losses."""
        from palmette.plan.pact.actions import actions_of
        from palmette.plan.pact.phases import schedule_phases
        from palmette.plan.pact.problem_from_profile import taught_warnings
        from palmette.plan.pact.simulation import progress_of, schedule_of, simulate

        _expect_energy(task)
        training = self._training(task)
        problem = self._problem(task, training)
        actions = actions_of(problem)
        chosen, about = self._actions(problem, actions)
        end = simulate(problem, actions, chosen)
        schedule = schedule_of(actions, chosen)
        variables = {"schedule": schedule, "energy_j": end.energy_j, "time_s": end.time_s, "loss": end.loss, **about}
        variables |= progress_of(problem, actions, chosen)
        if training is not None and (warnings := taught_warnings(training, schedule, problem.start.loss)):
            variables["warnings"] = warnings
        if not isinstance(task, Task):
            return Decision((), variables, model=problem.start.model)
        return Decision(schedule_phases(task, schedule), variables)

    def _training(self, task: PlanRequest) -> PlannedTraining | None:
        """The training of the task's network by the predictor; None where a problem is given instead.

        Raises:
            InputError: there is neither, or something is missing.
        """
        if self.problem is not None:
            return None
        if not isinstance(task, Task):
            others = Message(Argument("profile"), " and ", Argument("cluster"))
            expected = Message(f"{self.name} needs it, or ", others, "; expected a file")
            raise InputError(ArgumentFault("problem", "missing", expected))
        from palmette.plan.pact.problem_from_profile import PlannedTraining, parse_set_classes, target_and_deadline
        from palmette.predict.registry import load_predictor

        target_and_deadline(task.goal)  # before a learned predictor is loaded, which takes seconds
        set_classes = parse_set_classes(self.set_classes)
        predictor = load_predictor(self.predictor, self.bound, bounds=self.bounds, bounds_from=self.bounds_from)
        return PlannedTraining(task, predictor, self.classes, set_classes, self.distill)

    def _problem(self, task: PlanRequest, training: PlannedTraining | None) -> Problem:
        """The problem of a training; else the given one, with the goal's deadline and loss.

        Raises:
            InputError: it lacks something.
        """
        from palmette.plan.pact.problem_from_profile import build_problem

        if training is not None:
            return build_problem(training, (math.log(self.classes),))
        assert self.problem is not None, "there is a training or a problem"
        goal = {"deadline_s": task.goal.deadline_s, "target_loss": task.goal.loss}
        return self.problem.model_copy(update={name: value for name, value in goal.items() if value is not None})

    @abstractmethod
    def _actions(self, problem: Problem, actions: EpochActions) -> Chosen:
        """The actions of the schedule, and further variables of the decision.

        Raises:
            Infeasible: no schedule of this strategy meets target and deadline.
        """


@dataclass(frozen=True, kw_only=True)
class Pact(_PactStrategy):
    """PACT itself."""

    name: ClassVar[str] = "pact"
    summary: ClassVar[str] = "smaller models and other nodes as training proceeds, planned again every epoch"
    decides_online: ClassVar[bool] = True

    risk: bool = field(default=True, metadata={"help": "Weigh risk and opportunity in choosing the next action."})
    independent: bool = field(
        default=False,
        metadata={"help": "Treat the errors of --problem's estimates as independent."},
    )

    def _training(self, task: PlanRequest) -> PlannedTraining | None:
        if self.independent and self.problem is None:
            expected = Message("a predictor already accounts for it; expected ", Argument("problem"), " with it")
            raise InputError(ArgumentFault("independent", Message("without ", Argument("problem")), expected))
        return super()._training(task)

    def _problem(self, task: PlanRequest, training: PlannedTraining | None) -> Problem:
        from palmette.plan.pact.independent_errors import with_independent_errors

        problem = super()._problem(task, training)
        return with_independent_errors(problem) if self.independent else problem

    def _actions(self, problem: Problem, actions: EpochActions) -> Chosen:
        from palmette.plan.pact.online import plan_online
        from palmette.plan.pact.optimum import require_feasible
        from palmette.plan.pact.simulation import simulate

        chosen = plan_online(problem, actions, weigh_risk=self.risk)
        end = simulate(problem, actions, chosen)
        if not end.meets(problem):
            require_feasible(problem, actions)
            raise Infeasible(
                f"target_loss: {problem.target_loss:g}: pact misses it by its predictions; the loss that it reaches "
                f"within {problem.deadline_s:g} s is {not_below(end.loss)} (pact-optimum, which knows the losses, "
                "meets it)"
            )
        return chosen, {}


class PactOptimum(_PactStrategy):
    """The optimum in hindsight."""

    name: ClassVar[str] = "pact-optimum"
    summary: ClassVar[str] = "the cheapest schedule of models and nodes, given the true losses"

    def _actions(self, problem: Problem, actions: EpochActions) -> Chosen:
        from palmette.plan.pact.optimum import optimal_schedule

        found, gap = optimal_schedule(problem, actions)
        return found, {} if gap is None else {"exact": False, "gap": gap}


@dataclass(frozen=True, kw_only=True)
class StaticLearn(_PactStrategy):
    """Every model lowers the loss by about the same."""

    name: ClassVar[str] = "static-learn"
    summary: ClassVar[str] = "every model lowers the loss by about the same, given the true losses"

    margin: float = field(
        default=0.05, metadata={"help": "How far each model's part may be from their mean, as a fraction."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.margin < 1:
            raise InputError(ArgumentFault("margin", self.margin, "expected at least 0 and below 1"))

    def _actions(self, problem: Problem, actions: EpochActions) -> Chosen:
        from palmette.plan.pact.optimum import require_feasible
        from palmette.plan.pact.rivals import RivalSearch

        rivals = RivalSearch(problem, actions)
        chosen = rivals.static_learn(self.margin)
        if chosen is None:
            require_feasible(problem, actions)
            wider = (margin for margin in _MARGINS if margin > self.margin)
            found = (m for m in wider if RivalSearch(problem, actions).static_learn(m, _FEW_LENGTHS) is not None)
            met = next(found, None)
            closest = "none with any other was found" if met is None else f"with a margin of {met:g} one does"
            none = "was found that meets" if rivals.exhausted else "meets"
            reason = f"no schedule of equal parts {none} the target in time; {closest}"
            raise Infeasible(ArgumentFault("margin", f"{self.margin:g}", reason))
        return chosen, {"exact": False} if rivals.exhausted else {}


class OneSwitch(_PactStrategy):
    """Exactly one change."""

    name: ClassVar[str] = "one-switch"
    summary: ClassVar[str] = "the cheapest schedule with exactly one change, given the true losses"

    def _actions(self, problem: Problem, actions: EpochActions) -> Chosen:
        from palmette.plan.pact.optimum import require_feasible
        from palmette.plan.pact.rivals import RivalSearch

        chosen = RivalSearch(problem, actions).one_switch()
        if chosen is None:
            require_feasible(problem, actions)
            raise Infeasible(
                f"target_loss: {problem.target_loss:g}: one change is not enough within {problem.deadline_s:g} s; "
                "pact-optimum meets it with none or more"
            )
        return chosen, {}


STRATEGIES = (Pact, PactOptimum, StaticLearn, OneSwitch)


def _expect_energy(task: PlanRequest) -> None:
    if task.goal.single != "energy":
        expected = "expected energy, which a schedule of models minimises"
        raise InputError(ArgumentFault("goal", str(task.goal), expected))
