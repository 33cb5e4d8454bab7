"""The sync methods by their name in a plan's ``sync``: one row each."""

from __future__ import annotations

from palmette.runtime.sync.asynchronous import ASYNC
from palmette.runtime.sync.base import SyncMethod
from palmette.runtime.sync.epoch import EPOCH
from palmette.runtime.sync.step import STEP
from palmette.spec.plan import Phase
from palmette.spec.sync import Sync

SYNC_METHODS: dict[Sync, SyncMethod] = {"step": STEP, "epoch": EPOCH, "async": ASYNC}


def sync_method(phase: Phase) -> SyncMethod:
    """The sync method of a phase."""
    return SYNC_METHODS[phase.sync]
