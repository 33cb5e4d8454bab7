"""The exact optimum: the cheapest schedule by the losses that really happen, and how near the goal can be met."""

from __future__ import annotations

import math

from palmette.errors import Infeasible
from palmette.plan.pact_search.exact import Staircases
from palmette.plan.pact_search.moves import FORGIVEN, Floats, Moves
from palmette.plan.pact_search.play import MOST_EPOCHS, start_of
from palmette.plan.pact_search.search import Ways, cheapest
from palmette.spec.problem import Problem


def optimum(problem: Problem, moves: Moves) -> list[int]:
    """The moves of the cheapest schedule that meets target and deadline.

    Raises:
        Infeasible: there is none; names the least loss by the deadline, and when the target can be met, if ever.
    """
    start = start_of(problem)
    above = start.loss - problem.target_loss
    time = _ahead(problem, moves, moves.time_s, epochs_by_deadline(problem, moves))
    if time.at(0, start.pair, above) > problem.deadline_s + FORGIVEN:
        raise out_of_reach(problem, moves, time)
    energy = _ahead(problem, moves, moves.energy_j, epochs_by_deadline(problem, moves))
    ways = Ways(
        loss=moves.true.tolist(),
        time=moves.time_s.tolist(),
        energy=moves.energy_j.tolist(),
        there=moves.there.tolist(),
        out=moves.out,
        least_energy=energy.at,
        least_time=time.at,
    )
    found = cheapest(ways, 0, start.pair, above, problem.deadline_s)
    assert found is not None, "the quickest schedule is in time"
    return found


def refuse_if_out_of_reach(problem: Problem, moves: Moves) -> None:
    """Make sure that some schedule meets target and deadline.

    Raises:
        Infeasible: there is none; names the least loss by the deadline, and when the target can be met, if ever.
    """
    start = start_of(problem)
    time = _ahead(problem, moves, moves.time_s, epochs_by_deadline(problem, moves))
    if time.at(0, start.pair, start.loss - problem.target_loss) > problem.deadline_s + FORGIVEN:
        raise out_of_reach(problem, moves, time)


def epochs_by_deadline(problem: Problem, moves: Moves) -> int:
    """Epochs that fit before the deadline, at most."""
    shortest_s = float(moves.time_s.min())
    if shortest_s * MOST_EPOCHS <= problem.deadline_s:
        return MOST_EPOCHS
    return max(1, math.floor(problem.deadline_s / shortest_s + FORGIVEN))


def out_of_reach(problem: Problem, moves: Moves, time: Staircases) -> Infeasible:
    """What to say where no schedule meets target and deadline; ``time`` is what is ahead in seconds."""
    least = problem.start.loss - time.fall(0, problem.deadline_s)
    said = f"target_loss: {problem.target_loss:g}: cannot be reached within {problem.deadline_s:g} s; "
    said += f"the least loss that can be had by then is {least:.6g}"
    above = problem.start.loss - problem.target_loss
    later = _ahead(problem, moves, moves.time_s, 4 * epochs_by_deadline(problem, moves) + 100).at(0, 0, above)
    return Infeasible(said if later == math.inf else f"{said}, and the target can be had after {later:.6g} s")


def _ahead(problem: Problem, moves: Moves, cost: Floats, epochs: int) -> Staircases:
    highest = problem.start.loss - problem.target_loss
    return Staircases(moves, moves.true, cost, highest, epochs)
