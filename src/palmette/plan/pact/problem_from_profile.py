"""Builds a problem from a profile, a cluster and a predictor: the cost of epochs and changes, and the predicted loss.

Times and energies are the evaluator's: an epoch of federated averaging, and the handover of the model from one phase to
the next. Losses are the predictor's, predicted once. The next action is to be decided, so a change from the current
pair is predicted as if it came now, and the epochs of another pair as if it were trained from now on, from the loss
after the change. Changes between other pairs come later: they are predicted for a loss halfway to the target, as a
problem has one number for each. A model cannot grow again, so changes lead to models of the same size or smaller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from palmette.cost.handover import change_price, model_transfer
from palmette.errors import ArgumentFault, Fault, InputError, expected_name
from palmette.plan.core.strategy import Task
from palmette.plan.pact.actions import actions_of
from palmette.plan.pact.expanded_graph import MAX_CELLS, build_graph
from palmette.plan.pact.phases import epoch_samples, trainable_phases
from palmette.plan.pact.simulation import MAX_EPOCHS
from palmette.predict.forecast import Forecast, History, Predictor, Setting, outside_notes
from palmette.predict.ideal_curve import mean_fall
from palmette.spec.goal import Goal
from palmette.spec.plan import Phase
from palmette.spec.problem import Change, Pair, Problem, Run, Start

MAX_FORECAST_EPOCHS = 200
"""Epochs that are predicted; beyond, the loss falls as the ideal curve does."""
_COARSER = 1.01
_LOSS_STEPS = 600
_EPOCH_TIME_STEPS = 20
"""Steps of the loss from now to the target, and of time in the shortest epoch: each epoch is rounded up to them."""


@dataclass(frozen=True)
class PlannedTraining:
    """A training to plan: the task, the predictor of its loss, and its classes; those of some sets may be others.

    With ``distill``, smaller models may be distilled instead of pruned.
    """

    task: Task
    predictor: Predictor
    classes: int
    set_classes: Mapping[str, int] = field(default_factory=dict)
    distill: bool = False

    def __post_init__(self) -> None:
        unknown = [name for name in self.set_classes if name not in self.task.cluster.sets]
        if unknown:
            expected = expected_name(unknown[0], "set of nodes", list(self.task.cluster.sets))
            raise InputError(ArgumentFault("set_classes", unknown[0], expected))

    def setting(self, pair: Pair, phase: Phase) -> Setting:
        """The predictor's setting of a pair with its phase."""
        classes = self.set_classes.get(pair[1], self.classes)
        return Setting(pruning=phase.pruning, samples=epoch_samples(self.task, phase), classes=classes)


def parse_set_classes(text: str) -> dict[str, int]:
    """The classes of sets, as in ``gold=7,silver=9``.

    Raises:
        InputError: it is something else.
    """
    found: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, _, number = part.partition("=")
        if not name or not number.isdecimal() or not 1 <= int(number[:12]) <= 10**9:
            expected = "expected sets and their classes, such as gold=7,silver=9"
            raise InputError(ArgumentFault("set_classes", part, expected))
        found[name] = int(number)
    return found


def target_and_deadline(goal: Goal) -> tuple[float, float]:
    """The loss to reach, and the seconds to reach it in.

    Raises:
        InputError: the goal lacks one of them.
    """
    if goal.loss is None or goal.deadline_s is None:
        options = {"loss": goal.loss, "deadline_s": goal.deadline_s}
        raise InputError(
            ArgumentFault(option, "missing", "a schedule reaches a loss by a deadline; expected both")
            for option, value in options.items()
            if value is None
        )
    return goal.loss, goal.deadline_s


def build_problem(
    training: PlannedTraining, losses: tuple[float, ...], pair: Pair | None = None, earlier: tuple[float, ...] = ()
) -> Problem:
    """The problem after these losses (the one at the start first) of training in a pair, by default the first pair.

    ``earlier`` are the losses of the pairs before it.

    Raises:
        InputError: the goal has no loss or deadline, or a number is missing that a price needs.
        Infeasible: no pair may be trained.
    """
    loss, deadline_s = target_and_deadline(training.task.goal)
    found = trainable_phases(training.task)
    here = pair or next(iter(found))
    history = History(setting=training.setting(here, found[here]), losses=losses, earlier=earlier)
    prices = {pair: _price(training.task, phase) for pair, phase in found.items()}
    shortest_s = min(time_s for time_s, _ in prices.values())
    epochs = max(1, min(MAX_FORECAST_EPOCHS, int(deadline_s / shortest_s))) if shortest_s else MAX_FORECAST_EPOCHS
    ahead = training.predictor.predict_epochs(history, epochs)
    middle = _halfway(history, ahead, loss)
    problem = Problem(
        models=tuple(dict.fromkeys(model for model, _ in found)),
        node_sets=tuple(dict.fromkeys(nodes for _, nodes in found)),
        start=Start(model=here[0], nodes=here[1], loss=history.loss),
        target_loss=loss,
        deadline_s=deadline_s,
        loss_step=max(1e-6, abs(history.loss - loss) / _LOSS_STEPS),
        time_step_s=max(shortest_s / _EPOCH_TIME_STEPS, deadline_s / MAX_EPOCHS),
        loss_floor=ahead.floor,
        run=tuple(
            _run(pair, prices[pair], _start(training, (pair, phase), history), training.predictor, (epochs, deadline_s))
            for pair, phase in found.items()
        ),
        change=tuple(
            change
            for a in found
            for b in found
            if a != b and found[b].pruning >= found[a].pruning and _can_hand_over(training.task, found[a], found[b])
            for change in _changes(training, (a, found[a]), (b, found[b]), history if a == here else middle)
        ),
    )
    return _coarsen(problem)


def _coarsen(problem: Problem) -> Problem:
    """The problem with steps of the loss so coarse that its graph fits in memory."""
    actions = actions_of(problem)
    while (cells := build_graph(problem, actions, actions.robust).cells) > MAX_CELLS:
        problem = problem.model_copy(update={"loss_step": _COARSER * problem.loss_step * cells / MAX_CELLS})
    return problem


def _price(task: Task, phase: Phase) -> tuple[float, float]:
    price = task.evaluator.price(phase)
    return price.epoch.time_s, _known(task, phase, price.epoch.energy_j)


def _known(task: Task, phase: Phase, energy_j: float | None) -> float:
    if energy_j is not None:
        return energy_j
    unknown = next(name for name in phase.nodes() if task.cluster.nodes[name].power is None)
    raise InputError(Fault(f"nodes.{unknown}.power", "missing", "the energy of a schedule needs it"))


def _can_hand_over(task: Task, before: Phase, after: Phase) -> bool:
    found = model_transfer(before, after)
    moves = (*found.gather, *found.deliver)
    return all(task.evaluator.routes.between(move.sender, move.to) is not None for move in moves)


def _run(pair: Pair, price: tuple[float, float], start: History, predictor: Predictor, until: tuple[int, float]) -> Run:
    """The epochs of a pair from a start on: so many are predicted, others follow until a deadline."""
    epochs, deadline_s = until
    forecast = predictor.predict_epochs(start, epochs)
    later = _later_change(start, forecast, int(deadline_s / price[0]) if price[0] else 0)
    return Run(
        model=pair[0],
        nodes=pair[1],
        time_s=price[0],
        energy_j=price[1],
        loss_expected=(*forecast.expected, *later),
        loss_robust=(*forecast.steps_robust, *(max(change, forecast.steps_robust[-1]) for change in later)),
    )


def _later_change(start: History, forecast: Forecast, epochs: int) -> tuple[float, ...]:
    """The mean change of the epochs until the deadline that are not predicted any more, if there are any.

    By the power law of the ideal curve, and never more than in the last epoch that is predicted: to repeat that one for
    ever would promise any loss.
    """
    done = len(forecast.expected)
    if epochs <= done:
        return ()
    excess = start.loss + sum(forecast.expected) - forecast.floor
    return (max(-mean_fall(max(0.0, excess), done, epochs - done), min(0.0, forecast.expected[-1])),)


def _start(training: PlannedTraining, there: tuple[Pair, Phase], history: History) -> History:
    """The history if a phase trained from now on, after a change if there has to be one."""
    setting = training.setting(*there)
    if setting == history.setting:
        return history
    return _changed(training.predictor.predict_change(history, setting), history, setting)


def _changed(change: Forecast, history: History, to: Setting) -> History:
    """The history after a change, with the loss that is expected then."""
    return history.changed(to, max(change.floor, history.loss + change.expected[0]))


def taught_warnings(training: PlannedTraining, schedule: Sequence[Mapping[str, Any]], start_loss: float) -> list[str]:
    """Where a schedule relies on predictions beyond what the predictor was taught, in the order of the training."""
    found = trainable_phases(training.task)
    history = History(setting=training.setting(*next(iter(found.items()))), losses=(start_loss,))
    notes: list[str] = []
    for segment in schedule:
        where = f"{segment['model']} on {segment['nodes']}"
        pair = (segment["model"], segment["nodes"])
        setting = training.setting(pair, found[pair])
        if setting != history.setting:
            change = training.predictor.predict_change(history, setting)
            notes += outside_notes(f"the change to {where}", change)
            history = _changed(change, history, setting)
        forecast = training.predictor.predict_epochs(history, segment["epochs"])
        notes += outside_notes(where, forecast)
        history = history.extended(*list(accumulate(forecast.expected, initial=history.loss))[1:])
    return list(dict.fromkeys(notes))


def _changes(
    training: PlannedTraining, here: tuple[Pair, Phase], there: tuple[Pair, Phase], middle: History
) -> Iterator[Change]:
    """The change from one pair to another; where a smaller model may be distilled, that way, too."""
    history = History(setting=training.setting(*here), losses=middle.losses, earlier=middle.earlier)
    to = training.setting(*there)
    yield _change(training, here, there, training.predictor.predict_change(history, to))
    owned = training.task.cluster.nodes[here[1].meeting_node].source
    if training.distill and owned is not None and there[1].pruning > here[1].pruning:
        student = Setting(pruning=to.pruning, samples=owned.samples, classes=history.setting.classes)
        distilled = there[1].model_copy(update={"compress": "distill"})
        yield _change(training, here, (there[0], distilled), _distillation(training.predictor, history, student, to))


def _distillation(predictor: Predictor, history: History, student: Setting, to: Setting) -> Forecast:
    """λ_change of distillation: the model is pruned, learns for an epoch on its giver's data, and is handed over.

    The errors of the three are taken as independent.
    """
    pruned = predictor.predict_change(history, student)
    begun = _changed(pruned, history, student)
    epoch = predictor.predict_epochs(begun, 1)
    taught = begun.extended(max(epoch.floor, begun.loss + epoch.expected[0]))
    parts = [pruned, epoch, *([] if to == student else [predictor.predict_change(taught, to)])]
    expected = sum(part.expected[0] for part in parts)
    below, above = (
        math.hypot(*(quantile[0] - part.expected[0] for part, quantile in zip(parts, quantiles, strict=True)))
        for quantiles in ([part.low for part in parts], [part.robust for part in parts])
    )
    robust = (expected + above,)
    return Forecast(expected=(expected,), low=(expected - below,), robust=robust, total_robust=robust)


def _change(
    training: PlannedTraining, here: tuple[Pair, Phase], there: tuple[Pair, Phase], forecast: Forecast
) -> Change:
    time_s, energy_j, *_ = change_price(here[1], there[1], training.task.evaluator)
    return Change.model_validate(
        {
            "from": here[0],
            "to": there[0],
            "compress": there[1].compress,
            "time_s": time_s,
            "energy_j": _known(training.task, there[1], energy_j),
            "loss_expected": forecast.expected[0],
            "loss_robust": forecast.robust[0],
        }
    )


def _halfway(history: History, forecast: Forecast, target: float) -> History:
    """The training when its loss should be halfway from now to the target, or as near as it comes."""
    losses = list(accumulate(forecast.expected, initial=history.loss))[1:]
    middle = (history.loss + target) / 2
    epochs = next((k for k, loss in enumerate(losses, 1) if loss <= middle), len(losses))
    return history.extended(*losses[:epochs])
