"""``epoch``: federated averaging (McMahan et al. 2017). A window is an epoch of each tree over its own shard."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from palmette.cost.evaluate import Evaluator
from palmette.cost.sync.clients import ExchangeParts, drawn_trees
from palmette.runtime.data.epoch_length import EpochData, tree_steps
from palmette.runtime.sync.base import MeasuredTimes, PhaseContext, SyncMethod, typical_s
from palmette.runtime.sync.local_training import LocalWorkerSide
from palmette.runtime.sync.windows import Window, WindowEngineSide
from palmette.spec.plan import Phase


class EpochEngineSide(WindowEngineSide):
    """Epochs of federated averaging. A run that is stopped within one aborts it.

    Where it is drawn which trees take part in a round, the average goes to those of the next one.
    """

    def __init__(self, context: PhaseContext) -> None:
        super().__init__(context)
        self._steps = tree_steps(context.phase, context.evaluator, context.data)

    def window(self, at: int, end: int) -> Window:
        """An epoch: each tree that takes part takes the next steps over its own shard."""
        begun, drawn = at // max(self._steps), self._drawn(at)
        firsts = [self.context.log.first_iteration + begun * many for many in self._steps]
        steps = [min(many, end - at) if tree in drawn else 0 for tree, many in enumerate(self._steps)]
        return Window(end, firsts, steps, end - at == max(self._steps))

    def _drawn(self, at: int) -> Sequence[int]:
        """The trees of the round that iteration ``at`` belongs to; rounds are counted over the whole training."""
        number = (self.context.log.first_iteration + at) // max(self._steps)
        many = self.context.phase.clients or self.trees
        return drawn_trees(self.trees, many, self.context.seed, number)

    def exchange_stages(self, window: Window) -> Sequence[Sequence[int]]:
        """One part, or the pushes of those that took part, the average, and the pulls of those who will."""
        if not self.context.phase.draws_clients:
            return super().exchange_stages(window)
        parts = ExchangeParts(self.trees)
        taken = [tree for tree, many in enumerate(window.steps) if many]
        return [
            [parts.push(tree) for tree in taken],
            [parts.average],
            [parts.pull(tree) for tree in self._drawn(window.end)],
        ]

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
