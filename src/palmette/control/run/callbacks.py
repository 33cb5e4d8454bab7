"""Callbacks: what a user's program, a progress bar or a tracker hears of a run while it goes on.

    on_start ─▶ on_time_estimate ─▶ on_step … on_step ─▶ on_evaluation ─▶ on_epoch ─▶ on_step … ─▶ on_end
                                       └▶ on_fault ─▶ on_replan ─▶ (continues with another plan)

Callbacks run in the process that called ``palmette.run``, between iterations: what takes long there delays the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmette.errors import ArgumentFault, InputError, RunError

if TYPE_CHECKING:
    from palmette.control.run.record import PlanChange
    from palmette.errors import NodeLost
    from palmette.runtime.training.evaluation import Evaluation
    from palmette.runtime.training.job import EpochStatus, ProgressUpdate, RemainingTime, RunOutcome
    from palmette.runtime.training.loop import Training
    from palmette.spec.plan import Phase, Plan


class StopTraining(Exception):
    """Raised by a callback to stop training: it ends soon, with a checkpoint, as ``"stopped"``, and can be resumed."""


@dataclass(frozen=True)
class RunStart:
    """A run that begins, or continues after ``iteration`` of ``iterations``; ``options`` are those in ``run.json``."""

    folder: Path
    plan: Plan
    options: Mapping[str, Any]
    iteration: int
    iterations: int


class RunCallback:
    """Hears of a run while it goes on; override what you need. Any object with some of these methods will do.

    A method may raise ``StopTraining``. Any other exception ends the run with a ``RunError`` that names the method.
    """

    def on_start(self, start: RunStart) -> None:
        """The run is about to begin; once, also where it later continues with another plan."""

    def on_time_estimate(self, remaining: RemainingTime) -> None:
        """How long the rest takes on this machine, where the cluster is emulated."""

    def on_step(self, update: ProgressUpdate) -> None:
        """An iteration is done: its loss, its samples and its seconds."""

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """The network was evaluated on held-out data."""

    def on_epoch(self, status: EpochStatus) -> None:
        """An epoch is over, or the last, incomplete one: losses of all epochs, time and energy so far."""

    def on_fault(self, fault: NodeLost) -> None:
        """A node or a link is lost; the run continues with another plan, if there is one."""

    def on_replan(self, change: PlanChange) -> None:
        """The run continues with another plan, or with other phases, where its strategy decides after every epoch."""

    def on_end(self, outcome: RunOutcome) -> None:
        """The run is over: ``outcome.ended`` is ``"done"``, ``"stopped"``, or why it failed."""


EVENTS = tuple(name for name in vars(RunCallback) if name.startswith("on_"))


def refuse_other_callbacks(callbacks: Sequence[object]) -> None:
    """Refuse objects with no method for any event.

    Raises:
        InputError: names each of them.
    """
    expected = f"expected an object with at least one of {', '.join(EVENTS)}"
    wrong = [
        ArgumentFault("callbacks", each, expected)
        for each in callbacks
        if isinstance(each, type) or not any(callable(getattr(each, event, None)) for event in EVENTS)
    ]
    if wrong:
        raise InputError(wrong)


def _decided(iteration: int, phases: Sequence[Phase]) -> PlanChange:
    from palmette.control.run.record import PlanChange

    return PlanChange(iteration, "the strategy decided so after an epoch", tuple(phases[0].nodes()))


class CallbackList:
    """Tells all callbacks of a run what happens, in their order."""

    def __init__(self, callbacks: Sequence[object]) -> None:
        refuse_other_callbacks(callbacks)
        self._callbacks = tuple(callbacks)
        self._training: Training | None = None
        self.stopped = False

    def attach(self, training: Training, start: Callable[[], RunStart]) -> None:
        """Listen to a training that is about to begin: the first of a run, or one with another plan."""
        first, self._training = self._training is None, training
        training.on_time_estimate.append(lambda remaining: self.tell("on_time_estimate", remaining))
        training.on_epoch.append(lambda status: self.tell("on_epoch", status))
        training.on_other_phases.append(lambda *found: self.tell("on_replan", _decided(*found)))
        if first:
            self.tell("on_start", start())
        if self.stopped:  # while nothing was running
            training.stop()

    def update(self, update: ProgressUpdate) -> None:
        """An iteration is done, or the network was evaluated."""
        if update.evaluation is None:
            self.tell("on_step", update)
        else:
            self.tell("on_evaluation", update.evaluation)

    def tell(self, event: str, what: object) -> None:
        """Call a method of every callback that has it.

        Raises:
            RunError: one failed; names it.
        """
        for callback in self._callbacks:
            method = getattr(callback, event, None)
            if method is not None:
                self._call(f"{type(callback).__name__}.{event}", method, what)

    def _call(self, name: str, method: Callable[[Any], object], what: object) -> None:
        try:
            method(what)
        except StopTraining:
            self.stopped = True
            if self._training is not None:
                self._training.stop()
        except RunError:
            raise  # says itself what to do
        except Exception as error:
            from palmette.zoo.user_code import user_error

            raise RunError(f"callback {name} failed: {user_error(error)}") from error

    @contextmanager
    def until_end(self) -> Iterator[None]:
        """Tell all callbacks when the run is over, however it ends; an error of the run comes before one of theirs."""
        try:
            yield
        except BaseException as error:
            with suppress(RunError):
                self._end(str(error) or type(error).__name__)
            raise
        self._end()

    def _end(self, failed: str | None = None) -> None:
        if self._training is None:
            return
        outcome, errors = self._training.outcome, []
        for callback in self._callbacks:  # each of them, since they may have to close something
            try:
                alone = CallbackList([callback])
                alone.tell("on_end", outcome if failed is None else replace(outcome, ended=failed))
            except RunError as error:
                errors.append(error)
        if errors:
            raise errors[0]
