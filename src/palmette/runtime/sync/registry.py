"""The methods by the name that a plan gives in ``sync``: a row each."""

from __future__ import annotations

from palmette.runtime.sync.asynchronous import ASYNC
from palmette.runtime.sync.base import SyncMethod
from palmette.runtime.sync.epoch import EPOCH
from palmette.runtime.sync.step import STEP
from palmette.spec.plan import Phase
from palmette.spec.sync import Sync

SYNC_METHODS: dict[Sync, SyncMethod] = {"step": STEP, "epoch": EPOCH, "async": ASYNC}


def sync_method(phase: Phase) -> SyncMethod:
    """How the replicas of a phase agree."""
    return SYNC_METHODS[phase.sync]
