"""DiLoCo (Douillard et al. 2023): local SGD with long windows, and an outer optimizer with Nesterov momentum.

Placed like local SGD; what is exchanged is the same, so that the clock sees the window alone. The outer learning rate
is the paper's; its window of 500 steps and its momentum of 0.9 are for trainings of hundreds of windows. With
``fragments``, parts of the network are exchanged in turns (Streaming DiLoCo, Douillard et al. 2025).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from palmette.errors import ArgumentFault, InputError
from palmette.plan.core.forest import PrivateShares
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.rivals.local_sgd import SHARES_HELP, Windows, decide_windows, refuse_shares, refuse_window
from palmette.spec.sync import USUAL_OUTER, OuterOptimizer, Turns


@dataclass(frozen=True, kw_only=True)
class DiLoCo(Strategy):
    """Replicas that exchange what many steps have changed, and an outer optimizer."""

    name: ClassVar[str] = "diloco"
    summary: ClassVar[str] = "local SGD with long windows and an outer optimizer with Nesterov momentum"
    default_goal: ClassVar[str] = "time"
    plans_epochs: ClassVar[bool] = False
    needs_profile: ClassVar[bool] = True
    trains_apart: ClassVar[bool] = True

    every: int = field(default=50, metadata={"help": "Steps that replicas take before weights are exchanged."})
    outer_lr: float = field(default=USUAL_OUTER.lr, metadata={"help": "Learning rate of the outer optimizer."})
    outer_momentum: float = field(
        default=USUAL_OUTER.momentum, metadata={"help": "Nesterov momentum of the outer optimizer."}
    )

    fragments: int | None = field(
        default=None, metadata={"help": "Exchange so many parts of the network in turns, instead of all at once."}
    )
    delay: int = field(
        default=0, metadata={"help": "Steps that go on while a part is exchanged, before its average is used."}
    )
    shares: PrivateShares | None = field(default=None, metadata={"help": SHARES_HELP})

    def __post_init__(self) -> None:
        refuse_window(self.every)
        refuse_shares(self.shares)
        self._refuse_fragments()
        if not 0 < self.outer_lr < float("inf"):
            raise InputError(ArgumentFault("outer_lr", self.outer_lr, "expected more than 0"))
        if not 0 <= self.outer_momentum < 1:
            raise InputError(
                ArgumentFault("outer_momentum", self.outer_momentum, "expected at least 0 and less than 1")
            )

    def _refuse_fragments(self) -> None:
        """Refuse turns that do not fit into a window.

        Raises:
            InputError: says what would.
        """
        most = self.every // (self.fragments or 1)
        if self.fragments is not None and not 1 < self.fragments <= self.every:
            expected = f"expected 2 to {self.every}, the steps of a window"
            raise InputError(ArgumentFault("fragments", self.fragments, expected))
        if self.delay and self.fragments is None:
            raise InputError(ArgumentFault("delay", self.delay, "expected it with fragments"))
        if not 0 <= self.delay < most:
            expected = f"expected less than {most}, the steps between two parts of the network"
            raise InputError(ArgumentFault("delay", self.delay, expected))

    def decide(self, task: Task) -> Decision:
        """Take the best replicas and the best server."""
        outer = OuterOptimizer(lr=self.outer_lr, momentum=self.outer_momentum)
        turns = Turns(fragments=self.fragments, delay=self.delay) if self.fragments is not None else None
        return decide_windows(task, Windows(self.every, outer, turns, self.shares))


STRATEGIES = (DiLoCo,)
