"""``every``: local SGD (Stich 2019), and DiLoCo with an outer optimizer. A window is so many steps of all trees.

    iterations   0   1   2 │ 3   4   5 │ 6   7 │ 8  …        every 3, epochs of 8 iterations
    exchange               ▲           ▲       ▲

Batches are those of ``step``: trees take slices of a batch that is drawn by data, batch size, seed and iteration alone.
So all trees take as many steps; a slower one takes part with fewer samples of each batch, and weighs less. An epoch
ends with an exchange, so that the network can be evaluated. A window of one step without outer optimizer is ``step``.
"""

from __future__ import annotations

from collections.abc import Callable

from palmette.cost.operations import exchanges_weights
from palmette.cost.sync.turns import TurnParts, turns_of
from palmette.runtime.data.epoch_length import common_steps
from palmette.runtime.sync.base import MeasuredTimes, PhaseContext, SyncMethod, typical_s
from palmette.runtime.sync.local_training import LocalWorkerSide
from palmette.runtime.sync.turns import Barrier, barriers
from palmette.runtime.sync.windows import Window, WindowEngineSide


class EveryEngineSide(WindowEngineSide):
    """Windows of so many steps on slices of common batches."""

    patience_s = 30.0

    def __init__(self, context: PhaseContext) -> None:
        super().__init__(context)
        assert context.phase.every is not None, "a phase under every says how many steps"
        self._epoch = common_steps(context.phase, context.evaluator, context.data)
        self._every = min(context.phase.every, self._epoch)
        self._turns = turns_of(context.phase, self._epoch) if exchanges_weights(context.phase) else []
        self._parts = TurnParts(self.trees)

    def window(self, at: int, end: int) -> Window:
        """The steps up to the next exchange: those of an epoch are counted from its beginning."""
        return self._steps(at, self._window_end(at, end))

    @property
    def _agree_after(self) -> int:
        """The steps after which replicas agree in all layers: those of an epoch, where parts have their turns."""
        return self._epoch if self._turns else self._every

    def _window_end(self, at: int, end: int) -> int:
        return min(end, at + self._agree_after - at % self._epoch % self._agree_after)

    def _steps(self, at: int, stop: int) -> Window:
        first, steps = self.context.log.first_iteration + at, stop - at
        return Window(stop, [first] * self.trees, [steps] * self.trees, steps == self._agree_after)

    def steps_done(self, at: int, window: Window, aborted: Callable[[], bool]) -> bool:
        """Run the steps of a window, in which parts of the network may have their turns."""
        begin = at - at % self._epoch
        for barrier in barriers(self._turns, at - begin, window.end - begin):
            if not super().steps_done(at, self._steps(at, begin + barrier.at), aborted):
                return False
            at = begin + barrier.at
            self._meet(barrier, at - 1)
        return True

    def _meet(self, barrier: Barrier, at: int) -> None:
        """Put a fragment in place, and take the next, after iteration ``at``."""
        if barrier.put is not None:
            self.wait_for_parts()
            self._copy(self._parts.put(barrier.put), at)
        if barrier.take is not None:
            self._copy(self._parts.take(barrier.take), at)
            self.give_part(self._parts.exchange(barrier.take), at)
            if barrier.at_once:
                self.wait_for_parts()
                self._copy(self._parts.put(barrier.take), at)

    def _copy(self, part: int, at: int) -> None:
        self.give_part(part, at)
        self.wait_for_parts()

    def measured(self) -> MeasuredTimes:
        """The mean iteration of the median window, its part of the exchange included."""
        typical = typical_s(self.windows_s)
        if typical is not None:
            return MeasuredTimes(typical / self._agree_after)
        steps_s = [found for spans in self.spans_s if (found := typical_s(spans)) is not None]
        return MeasuredTimes(max(steps_s, default=None))


EVERY = SyncMethod(epoch_iterations=common_steps, worker_side=LocalWorkerSide, engine_side=EveryEngineSide)
