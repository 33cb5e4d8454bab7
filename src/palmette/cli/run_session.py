"""A prepared run as ``palmette run`` and ``up`` execute it: workers are awaited, and what happens is shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palmette.cli import options as opt
from palmette.cli.signals import restored_signals, stop_on_signals
from palmette.errors import Diverged, RunError, listed

if TYPE_CHECKING:
    from palmette.control.run.record import PlanChange
    from palmette.control.run.request import CommonRequest
    from palmette.control.run.session import TrainingSession


def await_workers(request: CommonRequest, nodes: Sequence[str], quiet: bool) -> None:
    """Let the workers of nodes dial in while the run is prepared, where the engine listens; say so on stderr."""
    from palmette.control.run.engines import membership_of
    from palmette.runtime.engines.registry import ENGINES

    if ENGINES[request.engine].listens:
        members = membership_of(request)
        if not quiet:
            print(f"palmette: waiting at {members} for the workers of {listed(nodes)}", file=sys.stderr)


def execute_run(
    session: TrainingSession, *, json_: bool, quiet: bool, lines: bool = False, again: str | None = None
) -> None:
    """Run, and show what happens, with a bar or as ``lines``.

    ``again`` is the command that continues the run, if it is not ``palmette run``.

    Raises:
        RunError: it failed or was stopped; the message says how to continue.
    """
    from palmette.cli.show.run_outcome import show_outcome
    from palmette.control.adapt.supervise import Supervisor
    from palmette.control.progress.lines import ProgressLines
    from palmette.control.progress.terminal import terminal_progress
    from palmette.runtime.training.checkpoint import is_any

    folder, again = session.folder, again or _resuming(session)
    if session.finished:
        if json_:
            _print_record(folder)
        elif not quiet:
            print(f"{folder}: this run has ended, nothing is left to do")
        return
    for warning in () if quiet else session.warnings:
        print(f"palmette: warning: {warning}", file=sys.stderr)
    try:
        with restored_signals(), terminal_progress(quiet or lines) as display:
            shown = [ProgressLines(_print_line)] if lines else [display, _ChangeReport()]
            supervisor = Supervisor(session, shown)
            outcome = supervisor.run(stop_on_signals)
    except Diverged:
        raise  # resumed, it would come to the same
    except RunError as error:
        further = f"; continue with: {again}" if is_any(folder / "checkpoints") else ""
        raise RunError(f"{opt.reason_of(error)}{further}") from None
    if json_:
        _print_record(folder)
    elif not quiet:
        show_outcome(outcome, supervisor.session)
    if outcome.ended == "stopped":
        raise RunError(f"stopped after {outcome.iterations} iterations; continue with: {again}")


def _resuming(session: TrainingSession) -> str:
    """The command that continues a run."""
    return f"palmette run --resume {session.folder}" + (" --insecure" if session.request.insecure else "")


def _print_record(folder: Path) -> None:
    print((folder / "run.json").read_text(), end="")


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class _ChangeReport:
    """Says on stderr, quiet or not, that the run continues with another plan."""

    def on_replan(self, change: PlanChange) -> None:
        nodes = ", ".join(change.nodes)
        line = f"{change.reason}; continuing after {change.iteration} iterations with {nodes}"
        print(f"palmette: {line}", file=sys.stderr)
