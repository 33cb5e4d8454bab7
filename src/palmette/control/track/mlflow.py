"""MLflow: a run on a server, or in the local database that MLflow takes without one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from palmette.control.track.tracker import TrackedRun

EXPERIMENT = "palmette"
WAITING, WAITING_S = 200, 5.0
"""How many numbers are sent together, and how long they wait at most."""
MOST_PARAMETERS = 100
LONGEST_VALUE = 500
STATUS = {"done": "FINISHED", "stopped": "KILLED"}


class MLflowTracker:
    """Writes to a run of its own; the program's active run, if there is one, is left alone."""

    def __init__(self, argument: str, run: TrackedRun) -> None:
        self._entities: Any = import_module("mlflow.entities")
        self._client: Any = import_module("mlflow").MlflowClient(tracking_uri=argument or None)
        known = run.known_id("mlflow")
        if known is None:
            made = self._client.create_run(self._experiment(), run_name=run.name)
            run.keep_id("mlflow", made.info.run_id)
        self._id = known or made.info.run_id
        self._client.update_run(self._id, status="RUNNING")
        self._waiting: list[Any] = []
        self._sent_s = time.monotonic()
        if known is None:
            self._log_parameters(run.parameters)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        found = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if found is None else found.experiment_id)

    def _log_parameters(self, parameters: Mapping[str, str]) -> None:
        rows = [self._entities.Param(name, value[:LONGEST_VALUE]) for name, value in parameters.items()]
        for begin in range(0, len(rows), MOST_PARAMETERS):
            self._client.log_batch(self._id, params=rows[begin : begin + MOST_PARAMETERS])

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write numbers, many at a time: each request takes long on a far server."""
        now_ms = int(time.time() * 1000)
        self._waiting += [self._entities.Metric(name, value, now_ms, step) for name, value in metrics.items()]
        if len(self._waiting) >= WAITING or time.monotonic() - self._sent_s > WAITING_S:
            self._send()

    def _send(self) -> None:
        self._client.log_batch(self._id, metrics=self._waiting)
        self._waiting, self._sent_s = [], time.monotonic()

    def close(self, ended: str) -> None:
        """Write what is left, and how the run ended."""
        self._send()
        self._client.set_tag(self._id, "palmette.ended", ended)
        self._client.set_terminated(self._id, STATUS.get(ended, "FAILED"))
