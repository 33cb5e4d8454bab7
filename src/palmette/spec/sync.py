"""How replicas agree: the kinds of ``sync``, and what sets them apart.

``step``   gradients of replicated layers are averaged in every iteration, so all replicas have one model's weights
``epoch``  trees train apart, and average their weights after every few epochs
``async``  trees pull weights from a parameter server, and push gradients to it, each at its own pace
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Sync = Literal["step", "epoch", "async"]


@dataclass(frozen=True, kw_only=True)
class SyncKind:
    """What the rest needs to know about a kind of ``sync``."""

    one_model: bool = False
    """Whether replicas have the same weights in every iteration, so that all trees share one batch."""
    averages_weights: bool = False
    """Whether trees train apart, and their weights are averaged when an epoch ends."""
    has_server: bool = False
    """Whether the weights live on a parameter server, which alone updates them."""


SYNC_KINDS: dict[Sync, SyncKind] = {
    "step": SyncKind(one_model=True),
    "epoch": SyncKind(averages_weights=True),
    "async": SyncKind(has_server=True),
}
assert set(SYNC_KINDS) == set(get_args(Sync))
