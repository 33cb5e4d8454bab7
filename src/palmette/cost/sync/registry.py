"""The kinds of ``sync`` as cost knows them; a new kind is a file beside this one and a row here."""

from __future__ import annotations

from palmette.cost.sync.asynchronous import ASYNC
from palmette.cost.sync.base import SyncCost
from palmette.cost.sync.epoch import EPOCH
from palmette.cost.sync.every import EVERY
from palmette.cost.sync.step import STEP
from palmette.spec.sync import SYNC_KINDS, Sync

SYNC_COSTS: dict[Sync, SyncCost] = {"step": STEP, "epoch": EPOCH, "every": EVERY, "async": ASYNC}
assert SYNC_COSTS.keys() == SYNC_KINDS.keys(), "every kind of sync has a price"
