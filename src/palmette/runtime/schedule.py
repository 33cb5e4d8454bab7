"""The learning rate of each iteration.

A named schedule is a factor of each group's own rate, by the iteration k, from 0, and the iterations of the whole run
alone, so that a run that is resumed or planned again, and all of its nodes, agree:

    warm-up    (k + 1) / warmup                                        for k < warmup
    constant   1
    linear     1 − p                     p = (k − warmup) / (total − warmup)
    cosine     (1 + cos(π p)) / 2        as torch's CosineAnnealingLR without warm-up

A user's own is any ``LRScheduler`` that needs no metric: every node has one, which takes a step after each iteration;
one that starts later takes the steps of the iterations before it first.
"""

from __future__ import annotations

import math
import warnings
from typing import Protocol, assert_never

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from palmette.errors import ArgumentFault, InputError
from palmette.runtime.options import Options, ScheduleName
from palmette.zoo.user_code import user_error

_STEPS_TRIED = 3


class RateSchedule(Protocol):
    """The schedule of one optimizer."""

    def step(self) -> None:
        """An iteration is done: set the learning rate of the next."""
        ...


class NamedSchedule:
    """One of the schedules that have a name."""

    def __init__(self, optimizer: torch.optim.Optimizer, options: Options, first: int) -> None:
        self._optimizer, self._options, self._iteration = optimizer, options, first
        self._rates = [group["lr"] for group in optimizer.param_groups]
        self._set()

    def step(self) -> None:
        """An iteration is done: set the learning rate of the next."""
        self._iteration += 1
        self._set()

    def _set(self) -> None:
        options = self._options
        assert isinstance(options.schedule, str), "a schedule of the user's own has no name"
        factor = rate_factor(options.schedule, self._iteration, options.span.total, options.warmup)
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor


def schedule_for(optimizer: torch.optim.Optimizer, options: Options, first: int) -> RateSchedule:
    """The schedule of an optimizer whose next iteration is ``first``."""
    if isinstance(options.schedule, str):
        return NamedSchedule(optimizer, options, first)
    made = options.schedule(optimizer)
    vars(optimizer)["_opt_called"] = True  # else PyTorch warns where gradients only accumulate before the first update
    for _ in range(first):
        made.step()
    return made


def rate_factor(name: ScheduleName, iteration: int, total: int, warmup: int = 0) -> float:
    """The factor of the learning rate in an iteration, from 0, of a run with so many in total."""
    if iteration < warmup:
        return (iteration + 1) / warmup
    done = min(1.0, (iteration - warmup) / max(1, total - warmup))
    match name:
        case "constant":
            return 1.0
        case "linear":
            return 1.0 - done
        case "cosine":
            return (1 + math.cos(math.pi * done)) / 2
    assert_never(name)


def refuse_unusable_schedule(optimizer: torch.optim.Optimizer, options: Options) -> None:
    """Refuse a schedule of the user's own that is none, or needs a metric.

    Raises:
        InputError: says why.
    """
    if isinstance(options.schedule, str):
        return
    name = getattr(options.schedule, "__name__", type(options.schedule).__name__)
    try:
        with warnings.catch_warnings(action="ignore"):
            made: object = options.schedule(optimizer)
            fits = isinstance(made, LRScheduler) and not isinstance(made, ReduceLROnPlateau)
            for _ in range(_STEPS_TRIED if fits else 0):
                made.step()  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001  (a user's own code may raise anything)
        raise InputError(ArgumentFault("schedule", name, user_error(error))) from None
    if not fits:
        why = "needs a metric" if isinstance(made, ReduceLROnPlateau) else f"returned {type(made).__name__}"
        expected = f"{why}; expected an LRScheduler that needs none"
        raise InputError(ArgumentFault("schedule", name, expected))
