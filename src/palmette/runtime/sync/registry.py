"""The sync methods by their name in a plan's ``sync``: one row each."""

from __future__ import annotations

from collections.abc import Callable

from palmette.runtime.sync.asynchronous import ASYNC
from palmette.runtime.sync.base import SyncMethod
from palmette.runtime.sync.epoch import EPOCH
from palmette.runtime.sync.every import EVERY
from palmette.runtime.sync.relay import RelayWorkerSide
from palmette.runtime.sync.step import STEP
from palmette.runtime.worker.setup import Setup, WorkerSide
from palmette.spec.plan import Phase
from palmette.spec.sync import Sync

RELAY = "relay"
"""The side of a worker that hands layers over."""
SYNC_METHODS: dict[Sync, SyncMethod] = {"step": STEP, "epoch": EPOCH, "every": EVERY, "async": ASYNC}
WORKER_SIDES: dict[str, Callable[[Setup], WorkerSide]] = {
    **{name: method.worker_side for name, method in SYNC_METHODS.items()},
    RELAY: RelayWorkerSide,
}
"""What makes a worker's side, by its name."""


def sync_method(phase: Phase) -> SyncMethod:
    """The sync method of a phase."""
    return SYNC_METHODS[phase.executed_sync]
