"""A recipe: a user's training as one small object of their own file.

    recipe = palmette.Recipe(
        model=build_model,           # a function that returns an nn.Module, or the module, or a name of the zoo
        data=load_data,              # a data set, (train, held out), a function that returns either, or a name
        loss=nn.MSELoss(),           # any loss of outputs and targets that can be split over nodes
        optimizer="adamw", lr=3e-4,  # and how to train, where the command line does not say it
    )

The zoo's networks and data sets make recipes of the same kind: ``Recipe(model="lenet5", data="digits")``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import nn

from palmette.spec.display import Displayed
from palmette.zoo.user_code import calling_line

UserLoss = Callable[[Any, Any], Any]
Collate = Callable[[list[Any]], Any]
UserModel = str | nn.Module | Callable[[], nn.Module]


@dataclass(frozen=True, kw_only=True, eq=False)
class Recipe(Displayed):
    """A network, its data and its loss; metrics are measured on held-out data beside the loss.

    ``data`` is a map-style data set of (input, target), a pair of them (to train on, and held out), a function that
    returns either, or a name such as ``cifar10:FOLDER``. Without a pair, every tenth sample is held out. ``loss`` is a
    function of outputs and targets that gives a value per sample, or (sum, count), or one of torch's losses; without
    one it is cross-entropy. ``metrics`` are functions of the same kind. ``transform`` turns a sample of a data set into
    an input, where the first layer runs; with a parameter ``seed`` it may augment. ``collate`` makes a batch of a list
    of items, as PyTorch's ``collate_fn``: it pads those of varying length. ``input_shape`` is that of one sample, where
    neither the model nor the data say it. The others say how to train, as the arguments of ``palmette.run`` of the same
    names, which are used instead where they are given.
    """

    model: UserModel
    data: Any
    loss: UserLoss | None = None
    metrics: Mapping[str, UserLoss] = field(default_factory=dict)
    transform: Callable[..., Any] | None = None
    collate: Collate | None = None
    input_shape: tuple[int, ...] | None = None
    optimizer: str | Callable[..., torch.optim.Optimizer] | None = None
    lr: float | None = None
    weight_decay: float | None = None
    momentum: float | None = None
    nesterov: bool | None = None
    optimizer_options: Mapping[str, Any] | None = None
    groups: Mapping[str, Mapping[str, Any]] | None = None
    schedule: str | Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler] | None = None
    warmup: int | None = None
    clip_norm: float | None = None
    accumulate: int | None = None
    early_stop: str | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made_at", calling_line())

    @property
    def made_at(self) -> str:
        """The line of the user's file that made it, for errors."""
        return str(vars(self)["_made_at"])

    def facts(self) -> dict[str, str]:
        """The fields that are set, each in a few words."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _brief(value) for name, value in given.items() if not _is_empty(value)}

    def __repr__(self) -> str:
        return f"Recipe({', '.join(f'{name}={value}' for name, value in self.facts().items())})"


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | tuple | Mapping) and not value)


def _brief(value: Any) -> str:
    """A user's object in a few words: its name, or what it is."""
    if isinstance(value, Mapping):
        return ", ".join(map(str, value))
    if isinstance(value, tuple) and not all(isinstance(each, int) for each in value):
        return f"({', '.join(map(_brief, value))})"
    if isinstance(value, str | int | float | tuple):
        return str(value)
    return str(getattr(value, "__name__", type(value).__name__))
