"""From what happens in a run to what trackers write.

train/loss, train/iteration_s                  every iteration
eval/loss, eval/accuracy, eval/<metric>        every evaluation
train/epoch_loss, energy_j, time_s             every epoch; energy where it is known, both since the beginning
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from palmette.control.run.callbacks import RunCallback, RunStart
from palmette.control.track.registry import find_tracker
from palmette.control.track.tracker import TrackedRun, Tracker
from palmette.errors import RunError, one_line
from palmette.runtime.training.evaluation import Evaluation
from palmette.runtime.training.job import EpochStatus, ProgressUpdate, RunOutcome
from palmette.spec.plan import Phase, Plan


class TrackerCallback(RunCallback):
    """Writes a run to a tracker. A tracker that fails later than at the start is dropped; the training goes on."""

    def __init__(self, text: str) -> None:
        self._name, self._entry, self._argument = find_tracker(text)
        self._tracker: Tracker | None = None
        self._step = 0

    def on_start(self, start: RunStart) -> None:
        """Open the tracker.

        Raises:
            RunError: it cannot be opened.
        """
        self._step = start.iteration
        run = TrackedRun(start.folder, parameters_of(start), start.iteration or None)
        try:
            self._tracker = self._entry.open(self._argument, run)
        except Exception as error:
            raise RunError(f"tracker {self._name} cannot be opened: {_reason(error)}") from error

    def on_step(self, update: ProgressUpdate) -> None:
        """Write the loss and how long the iteration took."""
        self._step = update.iteration
        self._log({"train/loss": update.loss, "train/iteration_s": update.iteration_s})

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Write what was measured on held-out data."""
        found = {"loss": evaluation.loss, "accuracy": evaluation.accuracy, **evaluation.metrics}
        self._log({f"eval/{name}": value for name, value in found.items()})

    def on_epoch(self, status: EpochStatus) -> None:
        """Write the mean loss, and the energy and time so far."""
        self._log({"train/epoch_loss": status.losses[-1], "energy_j": status.energy_j, "time_s": status.time_s})

    def on_end(self, outcome: RunOutcome) -> None:
        """Close the tracker."""
        self._attempt(lambda tracker: tracker.close(outcome.ended))

    def _log(self, metrics: Mapping[str, float | None]) -> None:
        known = {name: value for name, value in metrics.items() if value is not None and math.isfinite(value)}
        self._attempt(lambda tracker: tracker.log(known, self._step))

    def _attempt(self, write: Callable[[Tracker], None]) -> None:
        if self._tracker is None:
            return
        try:
            write(self._tracker)
        except Exception as error:  # noqa: BLE001  (a training of hours outlives a server of logs)
            self._tracker = None
            said = f"tracker {self._name} failed, and the run goes on without it: {_reason(error)}"
            warnings.warn(said, RuntimeWarning, stacklevel=2)


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines()[:1]
    return one_line(": ".join([type(error).__name__, *first]))


def parameters_of(start: RunStart) -> dict[str, str]:
    """The options of a run that are set, and what its plan is, as text."""
    options = {name: value for name, value in start.options.items() if value is not None and value not in ((), [])}
    return {name: _text(value) for name, value in {**options, **_plan_parameters(start.plan)}.items()}


def _plan_parameters(plan: Plan) -> dict[str, Any]:
    nodes = dict.fromkeys(instance.node for phase in plan.phases for instance in phase.instances)
    estimate = plan.estimate
    found = {
        "model": plan.model,
        "batch": plan.batch,
        "strategy": plan.strategy,
        "plan/phases": len(plan.phases),
        "plan/nodes": ", ".join(nodes),
        "plan/tree": "; ".join(map(_tree, plan.phases)),
        "plan/sync": ", ".join(dict.fromkeys(phase.sync for phase in plan.phases)),
        "plan/iteration_s": None if estimate is None else estimate.iteration_s,
        "plan/iteration_j": None if estimate is None else estimate.iteration_j,
    }
    return {name: value for name, value in found.items() if value is not None}


def _tree(phase: Phase) -> str:
    return ", ".join(f"{i.id}: {i.layers[0]}-{i.layers[1]} on {i.node}" for i in phase.instances)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
