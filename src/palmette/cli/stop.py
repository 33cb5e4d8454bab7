"""``palmette stop``: stops a run without a terminal, with a checkpoint."""

from __future__ import annotations

import time

from palmette.cli.run_places import HolderName, HubAt, HubKeys, RunName, find_run, has_ended, run_place
from palmette.errors import RunError

LOOK_EVERY_S, PATIENCE_S = 0.2, 120.0


def stop(run: RunName, at: HubAt = None, keys: HubKeys = None, name: HolderName = None) -> None:
    """Stop a run that was started with --detach; it writes a checkpoint, from which it can be continued.

    Example: palmette stop 3f2a
    """
    place = run_place(at, keys, name)
    found = find_run(place, run)
    place.stop(found.run)
    until = time.monotonic() + PATIENCE_S
    while not has_ended(found := find_run(place, found.run)):
        if time.monotonic() > until:
            raise RunError(f"run {found.run} still runs after {PATIENCE_S:.0f} s; it stops after its current iteration")
        time.sleep(LOOK_EVERY_S)
    again = f"palmette run --resume {found.folder}" if found.folder else f"palmette run --resume {found.run} --at …"
    further = f"; continue with: {again} --detach" if found.iterations and found.state != "done" else ""
    print(f"run {found.run}: {found.state} after {found.iterations} iterations{further}")
