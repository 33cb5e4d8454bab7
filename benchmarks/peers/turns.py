"""Contenders that take turns: a few steps each, round after round, so that a busy moment of the machine hits all."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from benchmarks.peers.crew import Crew
from benchmarks.peers.tasks import Lesson
from palmette.control.run.request import Request
from palmette.control.run.session import prepare
from palmette.cost.evaluate import Evaluator
from palmette.runtime.options import Options
from palmette.runtime.training.job import ProgressUpdate
from palmette.runtime.training.loop import Training
from palmette.spec.plan import Plan

TURN_PATIENCE_S = 600.0
# A worker that is alone is given up to a quarter of a second of iterations in advance: it runs on for that long.
RUNS_ON_S = 0.35


class Contender(Protocol):
    """Trains a few steps when it is its turn."""

    spans_s: list[float]

    def turn(self) -> None:
        """Train a few steps; their emulated seconds are added to ``spans_s``."""
        ...


class PeerTurns:
    """Steps of a crew; several contenders may share one."""

    def __init__(self, step: Callable[[], float], steps: int) -> None:
        self._step, self._steps = step, steps
        self.spans_s: list[float] = []

    def turn(self) -> None:
        """Train a few steps."""
        self.spans_s += [self._step() for _ in range(self._steps)]


class PalmetteTurns:
    """A run of Palmette on the testbed ``namespaces`` that stands still between its turns.

    The run is in a thread; after the last iteration of a turn, whoever watches it does not let it go on. The first
    iteration, in which much is done for the first time, is over when this is made, and is not counted.
    """

    def __init__(
        self, plan: Plan, evaluator: Evaluator, lesson: Lesson, *, dilation: float, rounds: int, steps: int
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="peers-")
        self._steps, self._left = steps, 1
        self._go, self._rest = threading.Semaphore(0), threading.Semaphore(0)
        self._training: Training | None = None
        self._error: BaseException | None = None
        self._lonely = len(plan.phases[0].nodes()) == 1
        self.losses: list[float] = []
        request = Request(
            data=lesson.data,
            iterations=1 + rounds * steps,
            testbed="namespaces",
            dilation=dilation,
            options=Options(seed=lesson.seed, lr=lesson.lr),
        )
        self._running = prepare(plan, evaluator.profile, evaluator.cluster, request, Path(self._folder.name))
        self._thread = threading.Thread(target=self._run, name="palmette", daemon=True)
        self._thread.start()
        self._wait()

    def _run(self) -> None:
        try:
            self._running.run(self._watch, lambda training: setattr(self, "_training", training))
        except BaseException as error:  # noqa: BLE001  (told to whoever waits for the turn)
            self._error = error
        self._rest.release()

    def _watch(self, update: ProgressUpdate) -> None:
        if update.evaluation is not None:
            return
        self.losses.append(update.loss)
        self._left -= 1
        if self._left == 0:
            self._rest.release()
            self._go.acquire()

    def _wait(self) -> None:
        if not self._rest.acquire(timeout=TURN_PATIENCE_S):
            raise TimeoutError(f"palmette has not ended its turn within {TURN_PATIENCE_S:g} s")
        if self._error is not None:
            raise self._error
        if self._lonely:
            time.sleep(RUNS_ON_S)

    @property
    def spans_s(self) -> list[float]:
        """The emulated seconds of the counted iterations, as the run writes them down."""
        lines = (Path(self._folder.name) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [line["iteration_s"] for line in map(json.loads, lines) if "iteration_s" in line][1:]

    def turn(self) -> None:
        """Train a few steps."""
        self._left = self._steps
        self._go.release()
        self._wait()

    def close(self) -> None:
        """End the run."""
        if self._training is not None:
            self._training.stop()
        self._left = -1
        self._go.release()
        self._thread.join(60.0)
        self._folder.cleanup()


def ddp_turns(crew: Crew, split: tuple[int, ...], steps: int, *, send_data: bool) -> PeerTurns:
    """Steps of DDP with the batch shared like this."""
    return PeerTurns(lambda: crew.step(split, send_data=send_data), steps)
