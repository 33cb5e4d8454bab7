"""What a user asks of a pre-training, checked where it is defined."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from palmette.control.pretrain.step_timer import StepCounts
from palmette.control.run.engines import default_testbed, refuse_unknown
from palmette.errors import ArgumentFault, InputError
from palmette.measure.meters.base import Meter
from palmette.runtime.options import Options
from palmette.spec.power import PowerModel
from palmette.spec.profile import Profile


@dataclass(frozen=True, kw_only=True)
class PretrainRequest:
    """What a user asks of a pre-training.

    ``steps`` are those of the whole training. The communication factors are fitted at ``bandwidths_bps``, if those are
    two or more. ``meter`` or ``power`` give the watts of nodes with ``host: local``. ``profile`` has the layer times by
    which nodes are emulated, if not those of the catalogue. The testbed is ``paced`` if not given, and ``none`` where
    the hosts are real.

    Raises:
        InputError: an argument is out of its range; holds every fault.
    """

    model: str
    data: str | None = None
    batch: int = 32
    steps: int = 100_000
    step_counts: StepCounts = field(default_factory=StepCounts)
    bandwidths_bps: tuple[float, ...] = ()
    engine: str = "local"
    testbed: str = ""
    dilation: float | None = None
    input_shape: tuple[int, ...] | None = None
    meter: Meter | None = None
    power: PowerModel | None = None
    profile: Profile | None = None
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if not self.testbed:
            object.__setattr__(self, "testbed", default_testbed(self.engine))
        faults = list(self._faults())
        if faults:
            raise InputError(faults)
        refuse_unknown("engine", self.engine)
        refuse_unknown("testbed", self.testbed)

    def _faults(self) -> Iterator[ArgumentFault]:
        for name, count in (("batch", self.batch), ("steps", self.steps)):
            if count < 1:
                yield ArgumentFault(name, count, "expected at least 1")
        for bandwidth_bps in self.bandwidths_bps:
            if not 0 < bandwidth_bps < math.inf:
                yield ArgumentFault("bandwidths_bps", bandwidth_bps, "expected more than 0")
        if self.dilation is not None and not 1 <= self.dilation < math.inf:
            yield ArgumentFault("dilation", self.dilation, "expected a number of at least 1")
        if self.input_shape is not None and (not self.input_shape or min(self.input_shape) < 1):
            yield ArgumentFault("input_shape", self.input_shape, "expected whole numbers of 1 or more")
