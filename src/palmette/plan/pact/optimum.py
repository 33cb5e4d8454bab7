"""The exact optimum: the cheapest schedule by the losses that really happen, and how near the goal can be met.

On huge problems the search settles for a schedule that costs a little more than the cheapest may; then it says by how
much at most, by a lower bound of the energy.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from palmette.errors import Infeasible
from palmette.plan.pact.actions import FORGIVEN, Moves
from palmette.plan.pact.exact_cost_to_go import Staircases
from palmette.plan.pact.label_search import Effort, Least, Ways, best_price, cheapest
from palmette.plan.pact.rivals import Rivals
from palmette.plan.pact.simulation import epochs_within, played, start_of
from palmette.spec.problem import Problem

_EVER_S = 1e300
_MOST_LABELS = 300_000


class Optimum(NamedTuple):
    """The moves of the cheapest schedule; ``gap`` is the fraction that another could save at most, None if nothing."""

    moves: list[int]
    gap: float | None


def optimum(problem: Problem, moves: Moves) -> Optimum:
    """The cheapest schedule that meets target and deadline.

    Raises:
        Infeasible: there is none; names the least loss by the deadline, and when the target can be met, if ever.
    """
    known = Rivals(problem, moves).at_most_one_switch()
    if known is None:
        refuse_if_out_of_reach(problem, moves)
        most_j = float(moves.energy_j.max()) * epochs_within(problem.deadline_s, moves)
    else:
        most_j = played(problem, moves, known).energy_j
    found = _cheapest(problem, moves, _Ahead(problem, moves, most_j), _EVER_S, known)
    if not played(problem, moves, found.moves).in_time(problem):
        found = _cheapest(problem, moves, _Ahead(problem, moves, most_j, in_time=True), problem.deadline_s, known)
    return found


def refuse_if_out_of_reach(problem: Problem, moves: Moves) -> None:
    """Make sure that some schedule meets target and deadline.

    Raises:
        Infeasible: there is none; names the least loss by the deadline, and when the target can be met, if ever.
    """
    above = problem.start.loss - problem.target_loss
    time = _time_ahead(problem, moves, problem.deadline_s, attained=True)
    if time.at(0, 0, above) <= problem.deadline_s + FORGIVEN:
        return
    least = problem.start.loss - time.fall(0, problem.deadline_s)
    said = f"target_loss: {problem.target_loss:g}: cannot be reached within {problem.deadline_s:g} s; "
    said += f"the least loss that can be had by then is {least:.6g}"
    later_s = _time_ahead(problem, moves, 4 * problem.deadline_s, attained=True).at(0, 0, above)
    raise Infeasible(said if later_s == math.inf else f"{said}, and the target can be had after {later_s:.6g} s")


class _Ahead:
    """What is ahead in energy; and in time, and in both at the best price of time, if the deadline matters."""

    def __init__(self, problem: Problem, moves: Moves, most_j: float, *, in_time: bool = False) -> None:
        self._problem, self._moves, self._most_j = problem, moves, most_j
        self.settled = True
        self.energy = self._priced(0.0)
        self.time: Least = lambda *_: 0.0
        self.price, self.priced = 0.0, self.energy
        if in_time:
            above = problem.start.loss - problem.target_loss
            guess = float(moves.energy_j.max() / moves.time_s.max()) or 1.0
            time = _time_ahead(problem, moves, problem.deadline_s)
            self.time, self.settled = time.at, self.settled and time.settled
            self.price = best_price(lambda price: self._priced(price)(0, 0, above) - price * problem.deadline_s, guess)
            self.priced = self._priced(self.price)

    def _priced(self, price: float) -> Least:
        moves, deadline_s = self._moves, self._problem.deadline_s
        made = Staircases(
            moves,
            moves.energy_j + price * moves.time_s,
            highest=self._problem.start.loss - self._problem.target_loss,
            most=self._most_j + price * deadline_s,
            epochs=epochs_within(deadline_s, moves),
        )
        self.settled = self.settled and made.settled
        return made.at


def _cheapest(problem: Problem, moves: Moves, ahead: _Ahead, deadline_s: float, known: list[int] | None) -> Optimum:
    """The cheapest schedule; where bounds that were cut short hide all of them, the one that is known."""
    ways = Ways(
        loss=moves.true.tolist(),
        time=moves.time_s.tolist(),
        energy=moves.energy_j.tolist(),
        there=moves.there.tolist(),
        out=moves.out,
        least_energy=ahead.energy,
        least_time=ahead.time,
        least_priced=ahead.priced,
        price=ahead.price,
    )
    start = start_of(problem)
    above = start.loss - problem.target_loss
    effort = Effort(_MOST_LABELS)
    found = cheapest(ways, (0, start.pair, above), deadline_s, effort)
    if found is None and not ahead.settled:
        found = known
    assert found is not None, "some schedule is in time"
    if ahead.settled and effort.slacks[0] == 0:
        return Optimum(found, None)
    least_j = _least_j(moves, above)
    if ahead.settled:
        least_j = max(least_j, ways.ahead(0, start.pair, above, deadline_s))
    energy_j = played(problem, moves, found).energy_j
    return Optimum(found, max(0.0, 1 - least_j / energy_j) if energy_j else 0.0)


def _least_j(moves: Moves, above: float) -> float:
    """A lower bound of the joules that it takes to lower the loss: as if every epoch were the one worth most."""
    falls = -moves.true
    worth = (falls / moves.energy_j.clip(1e-300)).max()
    return max(0.0, above) / float(worth)


def _time_ahead(problem: Problem, moves: Moves, most_s: float, *, attained: bool = False) -> Staircases:
    return Staircases(
        moves,
        moves.time_s,
        highest=problem.start.loss - problem.target_loss,
        most=most_s,
        epochs=epochs_within(most_s, moves),
        attained=attained,
    )
