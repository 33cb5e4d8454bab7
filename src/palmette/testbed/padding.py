"""How long each call of an emulated node has to last, and the factor by which time is dilated.

A call is padded to its node's time in the profile, or to the part of it that it does: one whose weights are frozen does
less than the profile assumes (see ``runtime.worker.calibration``). Where this machine is slower than an emulated node,
a call overruns; so all times are multiplied by one factor, and all bandwidths divided by it (time dilation). It is the
smallest factor with which the overruns of an iteration are at most a hundredth of it. Where iterations are short it
also leaves time for the overhead of transfers: handing over messages and waking threads. During a run the factor may be
increased (see ``runtime.training.dilation``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from palmette.cost.evaluate import Evaluator
from palmette.cost.kept_outputs import keeps_outputs, known_fractions
from palmette.cost.steps import Iteration
from palmette.runtime.engines.testbed import Calibrations
from palmette.runtime.phase_programs import PhasePart, parts_of
from palmette.runtime.program import in_order
from palmette.runtime.worker.commands import Calibration
from palmette.runtime.worker.executor import Pace
from palmette.spec.plan import Phase

MAX_OVERRUN = 0.01
# Several workers share this machine's cores: a call takes longer than it did alone, by this factor.
CONTENTION = 1.25
MAX_DILATION = 1000.0
MAX_OVERHEAD = 0.02
"""The fraction of an iteration that the overhead of transfers may take."""


class TransferOverhead(NamedTuple):
    """What a transfer takes beyond its emulated time on a testbed, and the largest dilation that is chosen for it."""

    seconds: float
    max_dilation: float


class Padding:
    """How long each call of a phase has to last, on any testbed, at a given dilation."""

    def __init__(
        self,
        parts: Sequence[PhasePart],
        evaluator: Evaluator,
        fixed_dilation: float | None,
        overhead: TransferOverhead,
    ) -> None:
        self._fixed, self._programs = fixed_dilation, dict[str, list[int]]()
        self._targets = [_targets(evaluator, part) for part in parts]
        self._spans_s = [evaluator.play(part.phase, part.made).total_s for part in parts]
        spans = zip(parts, self._spans_s, strict=True)
        self._least = max(overhead_dilation(part.made, span_s, overhead) for part, span_s in spans)

    def apply_calibration(self, calibrated: Calibrations) -> tuple[float, dict[str, dict[int, Pace]]]:
        """The dilation, and the pace of each node's programs, from what unpadded calls take and do here."""
        for number, targets in enumerate(self._targets):
            work = _merged(found.work for found in _of_part(calibrated, number))
            self._targets[number] = {k: s * work.get(k, 1.0) for k, s in targets.items()}
        factor = self._dilation(calibrated) if self._fixed is None else self._fixed
        self._programs = {node: list(programs) for node, programs in calibrated.items()}
        return factor, self.paces(factor)

    def paces(self, factor: float) -> dict[str, dict[int, Pace]]:
        """The pace of each node's programs at a dilation."""
        return {
            node: {number: Pace({k: s * factor for k, s in self._targets[number].items()}) for number in programs}
            for node, programs in self._programs.items()
        }

    def increased(self, dilation: float, by: float) -> float | None:
        """The dilation increased by a factor; None where it is fixed or at its maximum."""
        return (
            None if self._fixed is not None or dilation >= MAX_DILATION else min(MAX_DILATION, round(dilation * by, 2))
        )

    def _dilation(self, calibrated: Calibrations) -> float:
        """The largest that any part needs."""
        taken = [_merged(f.seconds for f in _of_part(calibrated, number)) for number in range(len(self._targets))]
        return max(self._least, *map(dilation, self._targets, taken, self._spans_s))


def _targets(evaluator: Evaluator, part: PhasePart) -> dict[int, float]:
    """Seconds of calls, and of coding before a message leaves; of outputs that are kept, as in later epochs."""
    phase, made = part.phase, part.made
    if keeps_outputs(phase):
        known = known_fractions(phase, evaluator.cluster)
        made = made._replace(known=[known.get(instance.id, 0.0) for instance in phase.instances])
    return evaluator.call_seconds(phase, made) | evaluator.coding_seconds(phase, made)


def _of_part(calibrated: Calibrations, number: int) -> list[Calibration]:
    """The calibrations of a part's nodes."""
    return [programs[number] for programs in calibrated.values() if number in programs]


def _merged(parts: Iterable[Mapping[int, float]]) -> dict[int, float]:
    return {number: value for part in parts for number, value in part.items()}


def needed_dilation(phase: Phase, emulated: Evaluator, here: Evaluator) -> float:
    """The dilation that a phase needs where its calls take what ``here`` says instead of what is emulated."""
    return max(
        dilation(
            emulated.call_seconds(part.phase, part.made),
            here.call_seconds(part.phase, part.made),
            emulated.play(part.phase, part.made).total_s,
        )
        for part in parts_of(phase, emulated)
    )


def dilation(targets_s: Mapping[int, float], taken_s: Mapping[int, float], iteration_s: float) -> float:
    """The smallest factor with which calls that took ``taken_s`` here fit into ``targets_s``, up to ``MAX_OVERRUN``.

    Both are seconds by the call's number; ``iteration_s`` is the estimated iteration.
    """
    low, high = 1.0, MAX_DILATION
    if _overrun_s(targets_s, taken_s, low) <= MAX_OVERRUN * iteration_s:
        return low
    for _ in range(40):
        middle = (low * high) ** 0.5
        fits = _overrun_s(targets_s, taken_s, middle) <= MAX_OVERRUN * iteration_s * middle
        low, high = (low, middle) if fits else (middle, high)
    return round(high + 0.005, 2)


def overhead_dilation(made: Iteration, iteration_s: float, overhead: TransferOverhead) -> float:
    """The factor with which the overhead of the longest chain of transfers is a small part of an iteration."""
    many: dict[int, int] = {}
    for number in in_order(made):
        step = made.steps[number]
        many[number] = max((many[need] for need in step.after), default=0) + (step.to is not None)
    needed_s = max(many.values(), default=0) * overhead.seconds / MAX_OVERHEAD
    return min(overhead.max_dilation, max(1.0, round(needed_s / iteration_s, 2))) if iteration_s > 0 else 1.0


def _overrun_s(targets_s: Mapping[int, float], taken_s: Mapping[int, float], factor: float) -> float:
    return sum(max(0.0, CONTENTION * taken - factor * targets_s.get(number, 0.0)) for number, taken in taken_s.items())
