"""The runs of a hub: each has a folder, one goes on at a time, and the others wait.

    submit ──▶ waiting ──▶ running ──▶ done, stopped or failed
                 ▲  the workers of its nodes are there     │
                 └───────────────── resume ────────────────┘

Of those that wait, the first whose workers are all there is next. A hub that ends stops its run with a checkpoint, and
the run waits; when the hub is started again, it continues.
"""

from __future__ import annotations

import datetime as dt
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from palmette.control.adapt.supervise import Supervisor
from palmette.control.hub.submission import Submission, read_submission
from palmette.control.progress.lines import ProgressLines
from palmette.control.run.listing import LOG, entry_of
from palmette.control.run.session import TrainingSession, prepare, resume
from palmette.errors import Fault, InputError, PalmetteError, RunError, expected_name, listed, one_line
from palmette.runtime.engines.hub.allowed import AllowedNames
from palmette.runtime.engines.hub.requests import LONGEST_PART
from palmette.runtime.engines.hub.server import HubServer
from palmette.runtime.training.loop import Training
from palmette.spec.files import make_folder, validated
from palmette.spec.plan import Plan, inputs_of
from palmette.spec.run_entry import RunEntry, RunState

MOST_WAITING = 100
_LOOK_EVERY_S = 0.5
_NAME_BYTES = 4


@dataclass(frozen=True)
class HubPlace:
    """A hub, the address and the keys by which its runs find it, and the folder of the runs."""

    hub: HubServer
    listen: str
    keys: Path
    folder: Path


class RunQueue:
    """The runs of a hub; ``allowed`` is the code and the data that they may use, ``told`` hears what happens.

    Raises:
        InputError: the folder cannot be made.
    """

    def __init__(self, place: HubPlace, allowed: AllowedNames, told: Callable[[str], None] = lambda _: None) -> None:
        self._place, self._allowed, self._told = place, allowed, told
        make_folder(place.folder)
        self._runs = {each.run: each for each in sorted(_found(place.folder), key=lambda each: each.since)}
        self._changing = threading.RLock()
        self._closing = threading.Event()
        self._current: _CurrentRun | None = None
        for run, each in self._runs.items():
            if each.state == "running":  # the hub has died
                self._become(run, "waiting")
        self._thread = threading.Thread(target=self._work, name="runs", daemon=True)
        self._thread.start()

    def entries(self) -> list[RunEntry]:
        """All runs, the latest last."""
        return [self._entry(each) for each in list(self._runs.values())]

    def submit(self, plan: dict[str, Any], options: dict[str, Any], by: str) -> str:
        """Accept a run; returns its name.

        Raises:
            InputError: it cannot be run, or too many are waiting.
            RunError: it names what is not allowed here.
        """
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        made = Submission(secrets.token_hex(_NAME_BYTES), validated(Plan, plan, "the plan"), options, by, now)
        made.refuse(self._allowed)
        made.request(self._place.listen, self._place.keys)
        with self._changing:
            if sum(each.state == "waiting" for each in self._runs.values()) >= MOST_WAITING:
                raise InputError(Fault("", f"{MOST_WAITING} runs", "are waiting; expected fewer"))
            make_folder(self._folder(made.run))
            made.write(self._folder(made.run))
            self._runs[made.run] = made
        self._told(f"run {made.run} of {one_line(by)}: {made.plan.strategy} for {made.plan.model}")
        return made.run

    def resume(self, run: str) -> None:
        """Continue a run that has ended before its end.

        Raises:
            InputError: there is none, or nothing is left to do.
        """
        with self._changing:
            known = self._known(run)
            if known.state not in ("stopped", "failed"):
                raise InputError(Fault("run", run, f"it is {known.state}; expected one that was stopped or has failed"))
            self._become(run, "waiting")

    def stop(self, run: str) -> None:
        """Stop a run, with a checkpoint, or let it wait no longer.

        Raises:
            InputError: there is none, or it has ended.
        """
        with self._changing:
            known = self._known(run)
            if known.state not in ("waiting", "running"):
                raise InputError(Fault("run", run, f"it is {known.state}; expected one that is waiting or running"))
            if self._current is not None and self._current.run == run:
                self._current.stop()
            else:
                self._become(run, "stopped")

    def read(self, run: str, file: str, offset: int) -> tuple[bytes, int]:
        """A part of a file of a run, and the length of the file; one that is not there is empty.

        Raises:
            InputError: there is no such run.
        """
        self._known(run)
        try:
            with (self._folder(run) / file).open("rb") as opened:
                size = opened.seek(0, 2)
                opened.seek(min(offset, size))
                return opened.read(LONGEST_PART), size
        except OSError:
            return b"", 0

    def close(self) -> None:
        """Stop the current run, which continues when the hub is started again, and end."""
        self._closing.set()
        with self._changing:
            if self._current is not None:
                self._current.stop()
        self._thread.join()

    def _known(self, run: str) -> Submission:
        if run not in self._runs:
            raise InputError(Fault("run", run, expected_name(run, "run", list(self._runs))))
        return self._runs[run]

    def _folder(self, run: str) -> Path:
        return self._place.folder / run

    def _become(self, run: str, state: RunState, why: str = "") -> None:
        with self._changing:
            self._runs[run] = replace(self._runs[run], state=state, why=why)
            self._runs[run].write(self._folder(run))

    def _entry(self, known: Submission) -> RunEntry:
        found = entry_of(known.run, self._folder(known.run), alive=True, since=known.since, by=known.by)
        why = known.why
        if known.state == "waiting":
            missing = sorted(set(known.nodes) - self._place.hub.present())
            why = f"for the worker of {listed(missing)}" if missing else "for another run to end"
        return found.model_copy(
            update={
                "state": known.state,
                "why": one_line(why)[:500],
                "model": known.plan.model,
                "strategy": known.plan.strategy,
                "nodes": tuple(known.nodes),
                "folder": "",
            }
        )

    def _work(self) -> None:
        while not self._closing.wait(_LOOK_EVERY_S):
            try:
                found = self._next()
                if found is not None:
                    self._execute(found)
            except (OSError, PalmetteError) as error:  # what became of a run cannot be written; the next may be
                self._told(f"the folder of a run cannot be used: {one_line(str(error))}")
                self._current = None

    def _next(self) -> Submission | None:
        """The first run whose workers are all there."""
        with self._changing:
            here = self._place.hub.present()
            for each in self._runs.values():
                if each.state == "waiting" and here.issuperset(each.nodes):
                    self._current = _CurrentRun(each.run)
                    self._become(each.run, "running")
                    return each
        return None

    def _execute(self, known: Submission) -> None:
        assert self._current is not None
        self._told(f"run {known.run} begins")
        with (self._folder(known.run) / LOG).open("a", encoding="utf-8") as log:
            state, why = self._outcome(known, self._current, log)
            if why:
                _say(log, f"failed: {why}")
        with self._changing:
            self._current = None
            self._become(known.run, "waiting" if state == "stopped" and self._closing.is_set() else state, why)
        self._place.hub.end_run()
        self._told(f"run {known.run}: {state}" + (f": {why}" if why else ""))

    def _outcome(self, known: Submission, current: _CurrentRun, log: TextIO) -> tuple[RunState, str]:
        """Run; returns the state that it ended in, and why it failed."""
        try:
            session = self._session(known)
            for warning in session.warnings:
                _say(log, f"warning: {warning}")
            outcome = Supervisor(session, [ProgressLines(lambda line: _write(log, line))]).run(current.ready)
        except PalmetteError as error:
            return "failed", one_line("; ".join(str(error).splitlines()))
        except Exception as error:  # noqa: BLE001  (a run that fails must not end the hub)
            return "failed", one_line(f"internal error: {type(error).__name__}: {error}")
        return ("stopped" if outcome.ended == "stopped" else "done"), ""

    def _session(self, known: Submission) -> TrainingSession:
        known.refuse(self._allowed)
        folder = self._folder(known.run)
        if (folder / "run.json").exists() and any((folder / "checkpoints").glob("*")):
            return resume(folder, trust_code=True)
        profile, cluster = inputs_of(known.plan, None, None)
        request = known.request(self._place.listen, self._place.keys)
        return prepare(known.plan, profile, cluster, request, folder, force=True)


class _CurrentRun:
    """The run that goes on, and how to stop it, also before it has begun."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._training: Training | None = None
        self._stopped = False

    def ready(self, training: Training) -> None:
        self._training = training
        if self._stopped:
            training.stop()

    def stop(self) -> None:
        self._stopped = True
        if self._training is not None:
            self._training.stop()


def _found(folder: Path) -> list[Submission]:
    """The submissions in a folder; what is none is left alone."""
    found = []
    for path in folder.iterdir():
        try:
            found.append(read_submission(path))
        except (InputError, RunError):
            continue
    return found


def _say(log: TextIO, line: str) -> None:
    _write(log, f"{time.strftime('%F %T')}  {line}")


def _write(log: TextIO, line: str) -> None:
    log.write(line + "\n")
    log.flush()
