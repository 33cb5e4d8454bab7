"""``palmette run --detach``: the same run in a process without a terminal, or at a hub."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.control.detached import DetachedRun
    from palmette.control.run.request import Request
    from palmette.spec.plan import Plan

START_S, LOOK_EVERY_S = 30.0, 0.1
"""Importing torch alone takes ten seconds on a busy machine."""
_PALMETTE = "from palmette_command import main; main()"


def run_here(arguments: Sequence[str], folder: Path, *, new: bool) -> int:
    """Start ``palmette`` with these arguments in a session of its own, and wait a little until it runs.

    Returns its exit code if it has ended meanwhile, with its last words; else 0.

    Raises:
        InputError: another process is training in the folder, or it holds a run and this is a ``new`` one.
    """
    from palmette.control.detached import remember_run
    from palmette.control.run.folder import refuse_owned, refuse_taken
    from palmette.control.run.listing import LOG
    from palmette.spec.files import make_folder

    refuse_owned(folder)
    if new:
        refuse_taken(folder)
    make_folder(folder)
    words = ["--lines" if word == "--detach" else word for word in arguments]
    begin = (folder / LOG).stat().st_size if (folder / LOG).exists() else 0
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _PALMETTE, *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    made = remember_run(folder, process.pid)
    _await_start(made, process)
    if process.poll():
        with (folder / LOG).open("rb") as log:
            log.seek(begin)
            sys.stderr.write(log.read().decode("utf-8", "replace"))
        return process.returncode
    process.returncode = 0  # it goes on without this process, of which Popen would warn
    begun = "" if made.entry().state != "waiting" else " has not begun yet, and may still be refused"
    print(f"run {made.run} in {folder}{begun}; palmette logs {made.run} -f, palmette stop {made.run}")
    return 0


def _await_start(made: DetachedRun, process: subprocess.Popen[bytes]) -> None:
    """Wait until a run is going on, has ended, or takes long to start."""
    until = time.monotonic() + START_S
    while process.poll() is None and made.entry().state == "waiting" and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)


def submit(plan: Plan, request: Request, at: str, keys: Path | None, name: str | None) -> None:
    """Have a hub run a plan.

    Raises:
        InputError: an option does not travel, or the hub cannot run it.
        RunError: the hub cannot be reached, or refuses.
    """
    from palmette.cli.run_places import hub_runs
    from palmette.control.hub.submission import ENGINE, submitted_options

    if request.engine != ENGINE:
        raise InputError(ArgumentFault("engine", request.engine, f"it has no hub; expected {ENGINE}"))
    place = hub_runs(at, keys, name)
    run = place.submit(plan.model_dump(mode="json"), submitted_options(request))
    print(f"run {run} at {place}; palmette logs {run} -f --at {at}, palmette stop {run} --at {at}")


def resume_at_hub(run: str, at: str, keys: Path | None, name: str | None) -> None:
    """Have a hub continue a run.

    Raises:
        InputError: there is no such run, or it has not ended.
        RunError: the hub cannot be reached, or refuses.
    """
    from palmette.cli.run_places import find_run, hub_runs

    place = hub_runs(at, keys, name)
    found = find_run(place, run).run
    place.resume(found)
    print(f"run {found} at {place} continues; palmette logs {found} -f --at {at}")
