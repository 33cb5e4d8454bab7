"""The pricing of each kind of ``sync``; a new kind is a file beside this one and a row here."""

from __future__ import annotations

from palmette.cost.sync import asynchronous, epoch, step
from palmette.cost.sync.base import Pricing
from palmette.spec.sync import SYNC_KINDS, Sync

PRICINGS: dict[Sync, Pricing] = {"step": step.price, "epoch": epoch.price, "async": asynchronous.price}
assert PRICINGS.keys() == SYNC_KINDS.keys(), "every kind of sync has a price"
