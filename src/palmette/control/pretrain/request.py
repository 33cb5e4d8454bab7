"""What a user asks of a pre-training, checked where it is defined."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from palmette.control.pretrain.step_timer import StepCounts
from palmette.control.run.engines import refuse_listen
from palmette.control.run.recipes import requested_recipe
from palmette.control.run.request import CommonRequest, options_of_beginning
from palmette.errors import ArgumentFault
from palmette.measure.meters.base import Meter
from palmette.runtime.options import Options
from palmette.spec.power import PowerModel
from palmette.spec.profile import Profile


@dataclass(frozen=True, kw_only=True)
class PretrainRequest(CommonRequest):
    """What a user asks of a pre-training.

    ``steps`` are those of the whole training. The communication factors are fitted at ``bandwidths_bps``, if those are
    two or more. ``meter`` or ``power`` give the watts of nodes with ``host: local``. ``profile`` has the layer times by
    which nodes are emulated, if not those of the catalogue.
    """

    model: str
    batch: int = 32
    steps: int = 100_000
    step_counts: StepCounts = field(default_factory=StepCounts)
    bandwidths_bps: tuple[float, ...] = ()
    meter: Meter | None = None
    power: PowerModel | None = None
    profile: Profile | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_listen(self.engine, self.listen)

    def _faults(self) -> Iterator[ArgumentFault]:
        for name, count in (("batch", self.batch), ("steps", self.steps)):
            if count < 1:
                yield ArgumentFault(name, count, "expected at least 1")
        for bandwidth_bps in self.bandwidths_bps:
            if not 0 < bandwidth_bps < math.inf:
                yield ArgumentFault("bandwidths_bps", bandwidth_bps, "expected more than 0")
        yield from super()._faults()


def pretrain_options(model: str, **given: Any) -> Options:
    """How a network is pre-trained: as given, else as its recipe says, if it is one.

    Raises:
        InputError: the recipe cannot be imported, or an option cannot be used.
    """
    return options_of_beginning(requested_recipe(model, None), **given)
