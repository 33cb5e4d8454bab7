"""``epoch``: federated averaging (McMahan et al. 2017). A window is an epoch of each tree over its own shard."""

from __future__ import annotations

import statistics

from palmette.cost.evaluate import Evaluator
from palmette.runtime.data.epoch_length import EpochData, tree_steps
from palmette.runtime.sync.base import MeasuredTimes, PhaseContext, SyncMethod, typical_s
from palmette.runtime.sync.local_training import LocalWorkerSide
from palmette.runtime.sync.windows import Window, WindowEngineSide
from palmette.spec.plan import Phase


class EpochEngineSide(WindowEngineSide):
    """Epochs of federated averaging. A run that is stopped within one aborts it."""

    def __init__(self, context: PhaseContext) -> None:
        super().__init__(context)
        self._steps = tree_steps(context.phase, context.evaluator, context.data)

    def window(self, at: int, end: int) -> Window:
        """An epoch: each tree takes the next steps over its own shard."""
        begun = at // max(self._steps)
        firsts = [self.context.log.first_iteration + begun * many for many in self._steps]
        return Window(end, firsts, [min(many, end - at) for many in self._steps], end - at == max(self._steps))

    def measured(self) -> MeasuredTimes:
        """The median step of the slowest tree, the median epoch, and the estimate of one with as many steps."""
        steps_s = [typical for spans in self.spans_s if (typical := typical_s(spans)) is not None]
        return MeasuredTimes(
            max(steps_s, default=None),
            statistics.median(self.windows_s) if self.windows_s else None,
            self.context.evaluator.epoch_s(self.context.phase, self._steps),
        )


def _epoch_iterations(phase: Phase, evaluator: Evaluator, data: EpochData) -> int:
    """The steps of the tree that takes the most."""
    return max(tree_steps(phase, evaluator, data))


EPOCH = SyncMethod(epoch_iterations=_epoch_iterations, worker_side=LocalWorkerSide, engine_side=EpochEngineSide)
