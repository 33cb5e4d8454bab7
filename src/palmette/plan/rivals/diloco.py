"""DiLoCo (Douillard et al. 2023): local SGD with long windows, and an outer optimizer with Nesterov momentum.

Placed like local SGD; what is exchanged is the same, so that the clock sees the window alone. The defaults of the outer
optimizer are the paper's; its window of 500 steps is for training that is much longer than most here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from palmette.errors import ArgumentFault, InputError
from palmette.plan.core.strategy import Decision, Strategy, Task
from palmette.plan.rivals.local_sgd import decide_windows, refuse_window
from palmette.spec.sync import OuterOptimizer

_PAPER = OuterOptimizer()


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
    outer_lr: float = field(default=_PAPER.lr, metadata={"help": "Learning rate of the outer optimizer."})
    outer_momentum: float = field(
        default=_PAPER.momentum, metadata={"help": "Nesterov momentum of the outer optimizer."}
    )

    def __post_init__(self) -> None:
        refuse_window(self.every)
        if not 0 < self.outer_lr < float("inf"):
            raise InputError(ArgumentFault("outer_lr", self.outer_lr, "expected more than 0"))
        if not 0 <= self.outer_momentum < 1:
            raise InputError(
                ArgumentFault("outer_momentum", self.outer_momentum, "expected at least 0 and less than 1")
            )

    def decide(self, task: Task) -> Decision:
        """Take the best replicas and the best server."""
        return decide_windows(task, self.every, OuterOptimizer(lr=self.outer_lr, momentum=self.outer_momentum))


STRATEGIES = (DiLoCo,)
