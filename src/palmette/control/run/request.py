"""What a user asks of a run beside the plan, checked where it is defined."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

from palmette.control.prune import Compression, known_compression
from palmette.control.run.engines import default_testbed, refuse_unknown
from palmette.cost.memory import known_optimizer
from palmette.errors import ArgumentFault, Fault, InputError
from palmette.runtime.options import LEARNING_RATES, Dtype, Options

LEAST_DRIFT = 0.05


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks of a run beside the plan: the fields are the arguments of ``palmette.run``.

    The testbed is ``paced`` if not given, and ``none`` where the hosts are real.

    Raises:
        InputError: an argument is out of its range; holds every fault.
    """

    data: str | None = None
    iterations: int | None = None
    epochs: int | None = None
    engine: str = "local"
    testbed: str = ""
    transport: str = "gloo"
    keys: str | None = None
    hub: str | None = None
    dilation: float | None = None
    input_shape: tuple[int, ...] | None = None
    init: str | None = None
    cluster_file: str | None = None
    replan: bool = True
    allow_data_loss: bool = False
    compress: Compression | None = None
    drift: float = 0.5
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        if not self.testbed:
            object.__setattr__(self, "testbed", default_testbed(self.engine))
        faults = list(self._faults())
        if faults:
            raise InputError(faults)
        refuse_unknown("engine", self.engine)
        refuse_unknown("testbed", self.testbed)
        refuse_unknown("transport", self.transport)
        if self.compress is not None:
            known_compression(self.compress)

    def _faults(self) -> Iterator[ArgumentFault]:
        for name, count in (("iterations", self.iterations), ("epochs", self.epochs)):
            if count is not None and count < 1:
                yield ArgumentFault(name, count, "expected at least 1")
        if self.iterations is not None and self.epochs is not None:
            yield ArgumentFault("epochs", self.epochs, "expected either epochs or iterations, not both")
        if self.dilation is not None and not 1 <= self.dilation < math.inf:
            yield ArgumentFault("dilation", self.dilation, "expected a number of at least 1")
        if self.input_shape is not None and (not self.input_shape or min(self.input_shape) < 1):
            yield ArgumentFault("input_shape", self.input_shape, "expected whole numbers of 1 or more")
        if not LEAST_DRIFT <= self.drift < math.inf:
            yield ArgumentFault("drift", self.drift, f"expected a number of at least {LEAST_DRIFT:g}")


def training_options(
    optimizer: str = "sgd",
    *,
    lr: float | None = None,
    seed: int = 0,
    dtype: str = "float32",
    mixed_precision: bool = False,
    freeze: tuple[str, ...] = (),
) -> Options:
    """The options of a training; the default learning rate depends on the optimizer.

    Raises:
        InputError: one of them is out of its range.
    """
    known = known_optimizer(optimizer)
    return Options(
        optimizer=known,
        lr=LEARNING_RATES[known] if lr is None else lr,
        seed=seed,
        dtype=cast("Dtype", dtype),
        mixed_precision=mixed_precision,
        freeze=freeze,
    )


def to_record(request: Request) -> dict[str, Any]:
    """The options of a run as in ``run.json``, those of the training beside the others."""
    given = asdict(request)
    options: dict[str, Any] = given.pop("options")
    return given | options


def from_record(data: Any, file: str) -> Request:
    """The request in a ``run.json``.

    Raises:
        InputError: it cannot be read.
    """
    try:
        given: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in data.items()}
        options = Options(**{each.name: given.pop(each.name) for each in fields(Options)})
        return Request(**given, options=options)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise InputError(Fault("options", data, f"cannot be read: {error}", file)) from None
