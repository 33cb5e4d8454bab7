"""A problem made from a profile, a cluster and a predictor: what epochs and changes cost, and how the loss should fall.

Times and energies are the evaluator's: an epoch of federated averaging, and the passage of the model from one phase to
the next. Losses are the predictor's, asked once. What is to be decided is the next move, so a change from the present
pair is foretold as if it came now, and the epochs of another pair as if that were trained from now on, with the loss
that the change leads to. Changes between others come later: as if the loss were halfway to the target, as a problem
knows one figure for each. A model cannot be made larger again, so changes lead to models as small or smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from palmette.cost.handover import change_price, hand_over
from palmette.errors import Fault, InputError
from palmette.plan.core.strategy import Task
from palmette.plan.pact.actions import moves_of
from palmette.plan.pact.expanded_graph import MOST_CELLS, grid_of
from palmette.plan.pact.phases import samples, stages
from palmette.plan.pact.simulation import MOST_EPOCHS
from palmette.predict.forecast import Forecast, Past, Predictor, Setting
from palmette.spec.goal import Goal
from palmette.spec.plan import Phase
from palmette.spec.problem import Change, Pair, Problem, Run, Start

MOST_FORESEEN = 200
"""Epochs that are asked for; the last change of the loss repeats beyond."""
_COARSER = 1.01
_STEPS = 600
_TIMES_A_STEP = 20
"""Steps of the loss from now to the target, and of time in the shortest epoch: each epoch is rounded up to them."""


@dataclass(frozen=True)
class Training:
    """A training that is to be planned: the task, who foretells its loss, and its classes."""

    task: Task
    predictor: Predictor
    classes: int

    def setting(self, phase: Phase) -> Setting:
        """What a phase trains, for the predictor."""
        return Setting(pruning=phase.pruning, samples=samples(self.task, phase), classes=self.classes)


def target(goal: Goal) -> tuple[float, float]:
    """The loss to reach, and by when.

    Raises:
        InputError: the goal lacks one of them.
    """
    if goal.loss is None or goal.deadline_s is None:
        wishes = {"--loss": goal.loss, "--deadline": goal.deadline_s}
        raise InputError(
            Fault(option, "missing", "a schedule leads to a loss by a deadline; expected both")
            for option, value in wishes.items()
            if value is None
        )
    return goal.loss, goal.deadline_s


def problem_of(
    training: Training, losses: tuple[float, ...], pair: Pair | None = None, before: tuple[float, ...] = ()
) -> Problem:
    """The problem from here on: after these losses (the start's first) in a pair, by default the first there is.

    ``before`` are the losses of pairs before it.

    Raises:
        InputError: the goal has no loss or deadline, or a figure is missing that a price needs.
        Infeasible: nothing that is there may be trained.
    """
    loss, deadline_s = target(training.task.goal)
    found = stages(training.task)
    here = pair or next(iter(found))
    past = Past(setting=training.setting(found[here]), losses=losses, before=before)
    prices = {pair: _price(training.task, phase) for pair, phase in found.items()}
    shortest_s = min(time_s for time_s, _ in prices.values())
    epochs = max(1, min(MOST_FORESEEN, int(deadline_s / shortest_s))) if shortest_s else MOST_FORESEEN
    middle = _halfway(past, training.predictor.run(past, epochs), loss)
    problem = Problem(
        models=tuple(dict.fromkeys(model for model, _ in found)),
        node_sets=tuple(dict.fromkeys(nodes for _, nodes in found)),
        start=Start(model=here[0], nodes=here[1], loss=past.loss),
        target_loss=loss,
        deadline_s=deadline_s,
        loss_step=max(1e-6, abs(past.loss - loss) / _STEPS),
        time_step_s=max(shortest_s / _TIMES_A_STEP, deadline_s / MOST_EPOCHS),
        run=tuple(_run(pair, prices[pair], _foreseen(training, phase, past, epochs)) for pair, phase in found.items()),
        change=tuple(
            _change(training, (a, found[a]), (b, found[b]), past if a == here else middle)
            for a in found
            for b in found
            if a != b and found[b].pruning >= found[a].pruning and _can_pass(training.task, found[a], found[b])
        ),
    )
    return _holdable(problem)


def _holdable(problem: Problem) -> Problem:
    """The problem with steps of the loss that are as coarse as its graph needs them to be."""
    moves = moves_of(problem)
    while (cells := grid_of(problem, moves, moves.robust).cells) > MOST_CELLS:
        problem = problem.model_copy(update={"loss_step": _COARSER * problem.loss_step * cells / MOST_CELLS})
    return problem


def _price(task: Task, phase: Phase) -> tuple[float, float]:
    price = task.evaluator.price(phase)
    return price.epoch_s, _known(task, phase, price.epoch_j)


def _known(task: Task, phase: Phase, energy_j: float | None) -> float:
    if energy_j is not None:
        return energy_j
    unknown = next(name for name in phase.nodes() if task.cluster.nodes[name].power is None)
    raise InputError(Fault(f"nodes.{unknown}.power", "missing", "the energy of a schedule needs it"))


def _can_pass(task: Task, before: Phase, after: Phase) -> bool:
    found = hand_over(before, after)
    moves = (*found.gather, *found.deliver)
    return all(task.evaluator.routes.between(move.sender, move.to) is not None for move in moves)


def _run(pair: Pair, price: tuple[float, float], foreseen: Forecast) -> Run:
    return Run(
        model=pair[0],
        nodes=pair[1],
        time_s=price[0],
        energy_j=price[1],
        loss_expected=foreseen.expected,
        loss_robust=foreseen.steps_robust,
    )


def _foreseen(training: Training, phase: Phase, past: Past, epochs: int) -> Forecast:
    """The changes of the loss if a phase trained from now on, after a change if there has to be one."""
    setting = training.setting(phase)
    if setting == past.setting:
        return training.predictor.run(past, epochs)
    (change,) = training.predictor.change(past, setting).expected
    return training.predictor.run(past.changed(setting, max(0.0, past.loss + change)), epochs)


def _change(training: Training, here: tuple[Pair, Phase], there: tuple[Pair, Phase], middle: Past) -> Change:
    time_s, energy_j = change_price(here[1], there[1], training.task.evaluator)
    past = Past(setting=training.setting(here[1]), losses=middle.losses, before=middle.before)
    foreseen = training.predictor.change(past, training.setting(there[1]))
    return Change.model_validate(
        {
            "from": here[0],
            "to": there[0],
            "time_s": time_s,
            "energy_j": _known(training.task, there[1], energy_j),
            "loss_expected": foreseen.expected[0],
            "loss_robust": foreseen.robust[0],
        }
    )


def _halfway(past: Past, foreseen: Forecast, target: float) -> Past:
    """The training when its loss should be halfway from now to the target, or as near as it comes."""
    losses = list(accumulate(foreseen.expected, initial=past.loss))[1:]
    middle = (past.loss + target) / 2
    epochs = next((k for k, loss in enumerate(losses, 1) if loss <= middle), len(losses))
    return past.trained(*losses[:epochs])
