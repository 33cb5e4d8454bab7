"""``run.json``: what a run was, and what became of it."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from palmette.control.run.request import Request, to_record
from palmette.errors import InputError, RunError
from palmette.runtime.training.job import RunOutcome
from palmette.spec.files import write_text
from palmette.spec.plan import Plan

FORMAT = "palmette.run/1"
MODELLED = "modelled: declared power of the nodes on the measured trace"


@dataclass(frozen=True)
class PlanChange:
    """A change of plan: after how many iterations, why, and which nodes take part now."""

    iteration: int
    reason: str
    nodes: tuple[str, ...]


def write_record(
    folder: Path,
    outcome: RunOutcome,
    *,
    ended: str,
    epoch_iterations: int,
    estimate_s: float,
    plan: Plan,
    request: Request,
    changes: Sequence[PlanChange],
    keepers: Sequence[str],
    metered: Mapping[str, Any],
) -> None:
    """Write a run's ``run.json``.

    Raises:
        RunError: it cannot be written.
    """
    record = {
        "format": FORMAT,
        "ended": ended,
        "stopped_early": outcome.stopped_early,
        "iterations": outcome.iterations,
        "epoch_iterations": epoch_iterations,
        "iteration_s": outcome.iteration_s,
        "estimate_s": estimate_s,
        **_epoch_times(outcome),
        "energy_j": outcome.energy_j if outcome.iterations else None,
        "time_s": outcome.time_s if outcome.iterations else None,
        "energy_source": MODELLED if outcome.energy_j is not None else None,
        "metered": metered,
        "accuracy": outcome.evaluation.accuracy if outcome.evaluation else None,
        "dilation": outcome.dilation,
        "expected_wall_s": outcome.expected_wall_s,
        "widened": [asdict(each) for each in outcome.dilation_increases],
        "engine": request.engine,
        "testbed": request.testbed,
        "transport": request.transport,
        "seed": request.options.seed,
        "nodes": outcome.node_seconds,
        "changes": [asdict(change) for change in changes],
        "keepers": keepers,
        "options": to_record(request),
        "versions": {
            "palmette": version("palmette"),
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "plan": plan.model_dump(mode="json"),
    }
    try:
        write_text(folder / "run.json", json.dumps(record, indent=1) + "\n")
    except InputError as error:
        raise RunError(str(error)) from None


def _epoch_times(outcome: RunOutcome) -> dict[str, float | None]:
    """Seconds of an epoch of federated averaging, and the estimate of one with as many steps."""
    found = outcome.measured.get(outcome.phase)
    if found is None or found.estimate_epoch_s is None:
        return {}
    return {"epoch_s": found.epoch_s, "estimate_epoch_s": found.estimate_epoch_s}
