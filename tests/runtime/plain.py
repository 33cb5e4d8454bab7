"""Updates as a plain PyTorch loop makes them, written without the runtime."""

from __future__ import annotations

import fnmatch
import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from palmette.runtime.options import Options

CLASSES = {each.__name__.lower(): each for each in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)}
CLASSES |= {each.__name__.lower(): each for each in (torch.optim.RMSprop, torch.optim.NAdam, torch.optim.ASGD)}
CLASSES |= {each.__name__.lower(): each for each in (torch.optim.Adagrad, torch.optim.Adafactor, torch.optim.Rprop)}


class PlainUpdates:
    """An optimizer of named weights with schedule, clipping and accumulation, for a run of so many iterations.

    ``first`` is the iteration that comes next in the schedule.
    """

    def __init__(
        self, weights: Mapping[str, nn.Parameter], options: Options, iterations: int, *, first: int = 0
    ) -> None:
        self._options, self._iteration = options, 0
        self.weights = weights
        given = weights or {"none": nn.Parameter(torch.zeros(1))}
        self.optimizer = _optimizer(given, options)
        self._scheduler = _scheduler(self.optimizer, options, iterations)
        for _ in range(first):
            self._step_rate()

    def step(self, loss: Tensor) -> None:
        """An iteration: gradients of the loss, and an update once enough of them are accumulated."""
        if self.weights:
            (loss / self._options.accumulate).backward()
        self.step_with_gradients()

    @property
    def comes_next(self) -> bool:
        """Whether the next iteration updates."""
        return (self._iteration + 1) % self._options.accumulate == 0

    def step_with_gradients(self, *, clip: bool = True) -> None:
        """An iteration whose part of the mean gradient is in ``grad`` already."""
        self._iteration += 1
        if self._iteration % self._options.accumulate == 0:
            if self._options.clip_norm is not None and clip:
                own = [weight for group in self.optimizer.param_groups for weight in group["params"]]
                nn.utils.clip_grad_norm_(own, self._options.clip_norm)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self._step_rate()

    def _step_rate(self) -> None:
        with warnings.catch_warnings(action="ignore"):  # of a step without an update, while gradients accumulate
            self._scheduler.step()


def _optimizer(weights: Mapping[str, nn.Parameter], options: Options) -> torch.optim.Optimizer:
    given: dict[str, Any] = {"lr": options.lr, "weight_decay": options.weight_decay, "momentum": options.momentum}
    given = {name: value for name, value in given.items() if value is not None} | dict(options.optimizer_options)
    if options.nesterov:
        given["nesterov"] = True
    name = options.optimizer
    if name == "momentum":
        name, given = "sgd", {"momentum": 0.9, **given}
    groups, left = [], dict(weights)
    for pattern, own in options.groups.items():
        matched = fnmatch.filter(left, pattern)
        groups.append({"params": [left.pop(each) for each in matched], **own})
    groups.insert(0, {"params": list(left.values())})
    make: Any = CLASSES[name] if isinstance(name, str) else name
    made: torch.optim.Optimizer = make(groups, **given)
    return made


def _scheduler(optimizer: torch.optim.Optimizer, options: Options, iterations: int) -> Any:
    if not isinstance(options.schedule, str):
        return options.schedule(optimizer)
    warmup, kind = options.warmup, options.schedule

    def factor(k: int) -> float:
        if k < warmup:
            return (k + 1) / warmup
        if kind == "constant":
            return 1.0
        done = (k - warmup) / max(1, iterations - warmup)
        return 1 - done if kind == "linear" else (1 + math.cos(math.pi * done)) / 2

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
