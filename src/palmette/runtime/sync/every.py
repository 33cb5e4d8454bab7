"""``every``: local SGD (Stich 2019), and DiLoCo with an outer optimizer. A window is so many steps of all trees.

    iterations   0   1   2 │ 3   4   5 │ 6   7 │ 8  …        every 3, epochs of 8 iterations
    exchange               ▲           ▲       ▲

Batches are those of ``step``: trees take slices of a batch that is drawn by data, batch size, seed and iteration alone.
So all trees take as many steps; a slower one takes part with fewer samples of each batch, and weighs less. An epoch
ends with an exchange, so that the network can be evaluated. A window of one step without outer optimizer is ``step``.
"""

from __future__ import annotations

from palmette.runtime.data.epoch_length import common_steps
from palmette.runtime.sync.base import MeasuredTimes, PhaseContext, SyncMethod, typical_s
from palmette.runtime.sync.local_training import LocalWorkerSide
from palmette.runtime.sync.windows import Window, WindowEngineSide


class EveryEngineSide(WindowEngineSide):
    """Windows of so many steps on slices of common batches."""

    patience_s = 30.0

    def __init__(self, context: PhaseContext) -> None:
        super().__init__(context)
        assert context.phase.every is not None, "a phase under every says how many steps"
        self._epoch = common_steps(context.phase, context.evaluator, context.data)
        self._every = min(context.phase.every, self._epoch)

    def window(self, at: int, end: int) -> Window:
        """The steps up to the next exchange: those of an epoch are counted from its beginning."""
        stop = min(end, at + self._every - at % self._epoch % self._every)
        first, steps = self.context.log.first_iteration + at, stop - at
        return Window(stop, [first] * self.trees, [steps] * self.trees, steps == self._every)

    def measured(self) -> MeasuredTimes:
        """The mean iteration of the median window, its part of the exchange included."""
        typical = typical_s(self.windows_s)
        if typical is not None:
            return MeasuredTimes(typical / self._every)
        steps_s = [found for spans in self.spans_s if (found := typical_s(spans)) is not None]
        return MeasuredTimes(max(steps_s, default=None))


EVERY = SyncMethod(epoch_iterations=common_steps, worker_side=LocalWorkerSide, engine_side=EveryEngineSide)
