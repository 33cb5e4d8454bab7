"""Training options: what a run needs besides the plan and the data."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from palmette.cost.optimizer import known_optimizer
from palmette.errors import ArgumentFault, InputError, expected_name
from palmette.runtime.early_stopping import EarlyStopping, StopAt, parse_early_stop, parse_stop_at
from palmette.spec.limits import MOST_SEED

if TYPE_CHECKING:
    import torch

Dtype = Literal["float32", "float64"]
Precision = Literal["bf16", "fp16"]
ScheduleName = Literal["constant", "linear", "cosine"]
LEARNING_RATES: dict[str, float] = {"sgd": 0.01, "momentum": 0.01, "adam": 0.001}
"""Learning rates of optimizers whose default is not PyTorch's."""
LOSS_SCALE = 1024.0
OptimizerFactory = Callable[..., "torch.optim.Optimizer"]
"""Takes weights, or parameter groups, and returns an optimizer: a class of ``torch.optim``, a ``functools.partial``."""
ScheduleFactory = Callable[["torch.optim.Optimizer"], "torch.optim.lr_scheduler.LRScheduler"]
ParameterGroups = Mapping[str, Mapping[str, Any]]
"""Options of the optimizer for some weights, by a pattern of their names; of several that match, the first counts."""


def checked_precision(precision: str | None, *, mixed: bool = False) -> Precision | None:
    """A precision by its name, or bfloat16 where it is ``mixed``; None for that of the weights.

    Raises:
        InputError: there is none of that name, or the two differ.
    """
    return Options(precision=precision, mixed_precision=mixed).autocast  # type: ignore[arg-type]


@dataclass(frozen=True)
class TrainedIterations:
    """Which iterations a worker trains: from ``first`` on, of ``total`` in the run; an epoch has ``epoch`` of them."""

    first: int = 0
    total: int = 1
    epoch: int = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train: optimizer, schedule, clipping, accumulation, precision, seed, dtype and frozen weights.

    An option of the optimizer that is None has the optimizer's own default. ``freeze`` holds the user's patterns for
    layers or weights; on a worker, the exact names of weights. ``span`` is only set on a worker.

    Raises:
        InputError: a value is out of range; names the field. Whether the optimizer takes the options is found by
            trying it (``optimizer_choice``).
    """

    optimizer: str | OptimizerFactory = "sgd"
    lr: float | None = None
    weight_decay: float | None = None
    momentum: float | None = None
    nesterov: bool = False
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    groups: ParameterGroups = field(default_factory=dict)
    schedule: ScheduleName | ScheduleFactory = "constant"
    warmup: int = 0
    clip_norm: float | None = None
    accumulate: int = 1
    early_stop: str | None = None
    stop_at: str | None = None
    seed: int = 0
    dtype: Dtype = "float32"
    precision: Precision | None = None
    loss_scale: float = LOSS_SCALE
    mixed_precision: bool = False
    freeze: tuple[str, ...] = ()
    span: TrainedIterations = field(default_factory=TrainedIterations, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, str):
            name = self.optimizer.lower()
            object.__setattr__(self, "optimizer", name)
            object.__setattr__(self, "lr", LEARNING_RATES.get(name) if self.lr is None else self.lr)
        faults = list(self._faults())
        if faults:
            raise InputError(faults)

    @property
    def has_plain_optimizer(self) -> bool:
        """Whether the optimizer is one of PyTorch's with its own options, so that nothing has to be tried."""
        extra = self.weight_decay is not None or self.momentum is not None or self.nesterov
        named = isinstance(self.optimizer, str) and isinstance(self.schedule, str)
        return named and not extra and not self.optimizer_options and not self.groups

    @property
    def autocast(self) -> Precision | None:
        """The precision of forward and backward, where that is not the weights'."""
        return "bf16" if self.mixed_precision else self.precision

    @property
    def gradient_scale(self) -> float:
        """By what gradients are multiplied between root and weights, so that float16 does not lose small ones."""
        return self.loss_scale if self.autocast == "fp16" else 1.0

    @property
    def early_stopping(self) -> EarlyStopping | None:
        """The metric that has to become better, and for how many evaluations it need not."""
        return parse_early_stop(self.early_stop)

    @property
    def stopping_at(self) -> StopAt | None:
        """The metric that has to be reached, and nothing more."""
        return parse_stop_at(self.stop_at)

    def _faults(self) -> Iterator[ArgumentFault]:
        yield from self._optimizer_faults()
        yield from self._schedule_faults()
        if self.clip_norm is not None and not _is_positive(self.clip_norm):
            yield ArgumentFault("clip_norm", self.clip_norm, "expected a number above 0")
        if not _is_whole(self.accumulate, 1):
            yield ArgumentFault("accumulate", self.accumulate, "expected a whole number, 1 or more")
        if self.early_stop is not None and self.early_stopping is None:
            expected = "expected loss:3, accuracy:3, or NAME:3:max or NAME:3:min for a metric of a recipe"
            yield ArgumentFault("early_stop", self.early_stop, expected)
        if self.stop_at is not None and self.stopping_at is None:
            expected = "expected loss:0.3, accuracy:0.9, or NAME:0.8:max or NAME:0.8:min for a metric of a recipe"
            yield ArgumentFault("stop_at", self.stop_at, expected)
        if not _is_whole(self.seed, 0) or self.seed > MOST_SEED:
            yield ArgumentFault("seed", self.seed, f"expected a whole number from 0 to {MOST_SEED}")
        yield from self._precision_faults()

    def _optimizer_faults(self) -> Iterator[ArgumentFault]:
        if isinstance(self.optimizer, str):
            try:
                known_optimizer(self.optimizer)
            except InputError as error:
                yield from (ArgumentFault(each.field, each.value, each.expected) for each in error.faults)
        else:
            yield from _callable_faults("optimizer", self.optimizer)
        if self.lr is not None and not _is_positive(self.lr):
            yield ArgumentFault("lr", self.lr, "expected a number above 0")
        if self.weight_decay is not None and not (_is_number(self.weight_decay) and 0 <= self.weight_decay < math.inf):
            yield ArgumentFault("weight_decay", self.weight_decay, "expected a number, 0 or more")
        if self.momentum is not None and not (_is_number(self.momentum) and 0 <= self.momentum < math.inf):
            yield ArgumentFault("momentum", self.momentum, "expected a number, 0 or more")
        if not _is_json(self.optimizer_options):
            expected = "expected numbers, words, and lists of them, by name"
            yield ArgumentFault("optimizer_options", self.optimizer_options, expected)
        if not _is_json(self.groups) or not all(isinstance(each, Mapping) for each in self.groups.values()):
            expected = "expected options by name for each pattern, such as {'*.bias': {'weight_decay': 0}}"
            yield ArgumentFault("groups", self.groups, expected)

    def _schedule_faults(self) -> Iterator[ArgumentFault]:
        if not isinstance(self.schedule, str):
            yield from _callable_faults("schedule", self.schedule)
        elif self.schedule not in get_args(ScheduleName):
            expected = expected_name(self.schedule, "schedule", get_args(ScheduleName))
            yield ArgumentFault("schedule", self.schedule, expected)
        if not _is_whole(self.warmup, 0):
            yield ArgumentFault("warmup", self.warmup, "expected a whole number, 0 or more")
        elif self.warmup and not isinstance(self.schedule, str):
            yield ArgumentFault("warmup", self.warmup, "a schedule of your own has its own warm-up; expected 0")

    def _precision_faults(self) -> Iterator[ArgumentFault]:
        if self.dtype not in get_args(Dtype):
            yield ArgumentFault("dtype", self.dtype, f"expected {' or '.join(get_args(Dtype))}")
        if self.precision is not None and self.precision not in get_args(Precision):
            yield ArgumentFault("precision", self.precision, f"expected {' or '.join(get_args(Precision))}")
        if self.mixed_precision and self.precision == "fp16":
            yield ArgumentFault("mixed_precision", True, "is bf16; expected this or precision fp16")
        if not _is_positive(self.loss_scale):
            yield ArgumentFault("loss_scale", self.loss_scale, "expected a number above 0")


def _callable_faults(argument: str, given: object) -> Iterator[ArgumentFault]:
    if not callable(given):
        yield ArgumentFault(argument, given, "expected a name or a callable")
        return
    try:
        pickle.dumps(given)
    except (pickle.PicklingError, AttributeError, TypeError):
        expected = "cannot be sent to workers; expected a function or class of a module, or a functools.partial of one"
        yield ArgumentFault(argument, given, expected)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < math.inf


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, Mapping)
