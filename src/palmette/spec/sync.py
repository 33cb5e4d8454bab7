"""How replicas agree: the kinds of ``sync``, and what sets them apart.

``step``   gradients of replicated layers are averaged in every iteration, so all replicas have one model's weights
``epoch``  trees train apart, and average their weights after every few epochs
``every``  the same after every few steps, on slices of common batches
``async``  trees pull weights from a parameter server, and push gradients to it, each at its own pace

The steps that trees take between two averages are a window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import Field

from palmette.spec.document import Flag, OpenDocument, Positive

Sync = Literal["step", "epoch", "every", "async"]


@dataclass(frozen=True, kw_only=True)
class SyncKind:
    """What the rest needs to know about a kind of ``sync``."""

    one_model: bool = False
    """Whether replicas have the same weights in every iteration."""
    common_batch: bool = False
    """Whether all trees share the batch of an iteration; else each source draws from a shard of its own."""
    averages_weights: bool = False
    """Whether trees train apart, and their weights are averaged when a window ends."""
    counts_steps: bool = False
    """Whether a window is as many steps as the phase's ``every`` says."""
    keeps_optimizers: bool = False
    """Whether the optimizers of replicas go on with their state where weights are averaged."""
    draws_clients: bool = False
    """Whether a phase may say that only some trees take part in a window."""
    has_server: bool = False
    """Whether the weights live on a parameter server, which alone updates them."""


SYNC_KINDS: dict[Sync, SyncKind] = {
    "step": SyncKind(one_model=True, common_batch=True),
    "epoch": SyncKind(averages_weights=True, draws_clients=True),
    "every": SyncKind(averages_weights=True, common_batch=True, counts_steps=True, keeps_optimizers=True),
    "async": SyncKind(has_server=True),
}
assert set(SYNC_KINDS) == set(get_args(Sync))


class OuterOptimizer(OpenDocument):
    """SGD on the mean of what a window has changed, with momentum; by default with the values of DiLoCo."""

    lr: Positive = 0.7
    momentum: Annotated[float, Field(strict=True, ge=0, lt=1)] = 0.9
    nesterov: Flag = True

    @property
    def shown(self) -> str:
        """Its values in few words."""
        return f"lr {self.lr:g}, {'Nesterov ' if self.nesterov else ''}momentum {self.momentum:g}"

    @property
    def averages_only(self) -> bool:
        """Whether the weights after a window are their mean."""
        return self.lr == 1 and self.momentum == 0


class Turns(OpenDocument):
    """Parts of the network that are exchanged in turns within a window, evenly spaced (Streaming DiLoCo).

    After its last step of a turn, each replica sends a part and takes ``delay`` more steps; then it goes on from the
    average, plus what these steps have changed.
    """

    fragments: Annotated[int, Field(strict=True, ge=2)]
    delay: Annotated[int, Field(strict=True, ge=0)] = 0


USUAL_OUTER = OuterOptimizer(momentum=0.7)
"""What strategies and pilots take: DiLoCo's momentum of 0.9 sums up ten windows, more than most trainings here have."""
