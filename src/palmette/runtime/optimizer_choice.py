"""The optimizer that a run's options describe: made for some weights, tried before a run starts, and priced.

Any class of ``torch.optim`` that needs gradients alone will do, and any callable that takes weights or parameter groups
and returns such an optimizer. It has to treat each weight by itself, as all of PyTorch's do: nodes hold different ones.
"""

from __future__ import annotations

import fnmatch
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from palmette.cost.optimizer import REFUSED, STATE_COPIES, OptimizerCost
from palmette.errors import ArgumentFault, InputError, expected_name, one_line
from palmette.runtime.options import OptimizerFactory, Options
from palmette.runtime.schedule import refuse_unusable_schedule
from palmette.zoo.user_code import user_error

MOMENTUM = 0.9
"""Of the optimizer that is called ``momentum``, unless the user gives another."""
_TRIED = (4, 4)
# Optimizers that do not take weights of every shape.
_MATRICES_ALONE = ("muon",)


def named_classes() -> dict[str, type[torch.optim.Optimizer]]:
    """The classes of ``torch.optim`` by their names in lower case."""
    found = [each for each in vars(torch.optim).values() if isinstance(each, type)]
    kinds = [each for each in found if issubclass(each, torch.optim.Optimizer) and each is not torch.optim.Optimizer]
    return {each.__name__.lower(): each for each in kinds}


def optimizer_for(weights: Mapping[str, nn.Parameter], options: Options) -> torch.optim.Optimizer:
    """An optimizer of some weights, by name, in the groups that the options describe."""
    given = _grouped(weights, options) if options.groups else list(weights.values())
    return _factory(options)(given, **_keywords(options))


def optimizer_label(options: Options) -> str:
    """The optimizer's name for people."""
    made = options.optimizer
    if isinstance(made, str):
        return made
    while isinstance(made, partial):
        made = made.func
    return getattr(made, "__name__", type(made).__name__)


def optimizer_cost(options: Options) -> OptimizerCost:
    """What the optimizer costs: what it keeps of each weight is found by trying it, unless it is plain.

    Raises:
        InputError: the optimizer does not have an option, or the optimizer or the schedule cannot be used; says why.
    """
    name = optimizer_label(options)
    copies = STATE_COPIES[name] if options.has_plain_optimizer else state_copies(_checked(options))
    accumulated = int(options.accumulate > 1)
    clips = options.clip_norm is not None
    return OptimizerCost(name, copies + accumulated, clips_norm=clips, accumulate=options.accumulate)


def state_copies(optimizer: torch.optim.Optimizer) -> int:
    """How many tensors as large as a weight an optimizer keeps after a step; sums of rows and the like do not count."""
    weight: nn.Parameter = next(weight for group in optimizer.param_groups for weight in group["params"])
    kept = optimizer.state[weight].values()
    return sum(isinstance(value, Tensor) and value.numel() == weight.numel() for value in kept)


def refuse_unfit_weights(weights: Mapping[str, nn.Parameter], options: Options) -> None:
    """Refuse patterns of groups that match no weight, and an optimizer that does not take a network's weights.

    Raises:
        InputError: names the pattern, or says what the optimizer says.
    """
    wrong = [
        ArgumentFault("groups", pattern, expected_name(pattern, "weight", list(weights)))
        for pattern in options.groups
        if not fnmatch.filter(weights, pattern)
    ]
    if wrong:
        raise InputError(wrong)
    if not options.has_plain_optimizer or options.optimizer in _MATRICES_ALONE:
        _made(weights, options)


def _checked(options: Options) -> torch.optim.Optimizer:
    """The optimizer after a trial, of which all options and the schedule can be used."""
    faults = list(_unknown_options(options))
    if faults:
        raise InputError(faults)
    optimizer = _tried(options)
    refuse_unusable_schedule(optimizer, options)
    return optimizer


def _factory(options: Options) -> OptimizerFactory:
    if not isinstance(options.optimizer, str):
        return options.optimizer
    return named_classes()["sgd" if options.optimizer == "momentum" else options.optimizer]


def _keywords(options: Options) -> dict[str, Any]:
    """The options that the user has given, as the optimizer's arguments."""
    given = {"lr": options.lr, "weight_decay": options.weight_decay, "momentum": options.momentum}
    if options.optimizer == "momentum" and options.momentum is None:
        given["momentum"] = MOMENTUM
    known = {name: value for name, value in given.items() if value is not None}
    return known | ({"nesterov": True} if options.nesterov else {}) | dict(options.optimizer_options)


def _grouped(weights: Mapping[str, nn.Parameter], options: Options) -> list[dict[str, Any]]:
    """Parameter groups: all weights that no pattern matches, then one group for each pattern.

    Some may be empty on a node: all nodes have the same groups, since a schedule may tell them apart.
    """
    groups: list[dict[str, Any]] = [{"params": []}, *({"params": [], **own} for own in options.groups.values())]
    for name, weight in weights.items():
        matched = [fnmatch.fnmatchcase(name, pattern) for pattern in options.groups]
        groups[matched.index(True) + 1 if any(matched) else 0]["params"].append(weight)
    return groups


def _unknown_options(options: Options) -> Iterator[ArgumentFault]:
    """Faults for options that the optimizer's signature does not have."""
    known, name = _known_keywords(_factory(options)), optimizer_label(options)
    if known is None:
        return
    for key, value in _keywords(options).items():
        if key in options.optimizer_options and key not in known:
            yield ArgumentFault("optimizer_options", key, expected_name(key, f"option of {name}", known))
        elif key not in known:
            yield ArgumentFault(key, value, f"{name} has no such option; expected an optimizer that has")
    for pattern, given in options.groups.items():
        for key in given:
            if key not in known:
                yield ArgumentFault("groups", f"{pattern}: {key}", expected_name(key, f"option of {name}", known))


def _known_keywords(factory: OptimizerFactory) -> Sequence[str] | None:
    """The options that a factory takes beside the weights; None where it takes any."""
    try:
        taken = list(inspect.signature(factory).parameters.values())[1:]
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken):
        return None
    return [each.name for each in taken]


def _tried(options: Options) -> torch.optim.Optimizer:
    """The optimizer after a step on a small weight.

    Raises:
        InputError: it cannot be made, or does not update with a gradient alone.
    """
    weight = nn.Parameter(torch.zeros(_TRIED))
    optimizer = _made({"weight": weight}, options)
    weight.grad = torch.ones(_TRIED)
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InputError(_needs_more(options, REFUSED["lbfgs"]))
    try:
        with warnings.catch_warnings(action="ignore"):
            optimizer.step()
    except Exception as error:  # noqa: BLE001  (a user's own code may raise anything)
        raise InputError(_needs_more(options, _told(options, error))) from None
    return optimizer


def _made(weights: Mapping[str, nn.Parameter], options: Options) -> torch.optim.Optimizer:
    try:
        with warnings.catch_warnings(action="ignore"):
            made: object = optimizer_for(weights, options)
    except Exception as error:  # noqa: BLE001  (a user's own code may raise anything)
        raise InputError(ArgumentFault("optimizer", optimizer_label(options), _told(options, error))) from None
    if not isinstance(made, torch.optim.Optimizer):
        expected = f"returned {type(made).__name__}; expected a torch.optim.Optimizer"
        raise InputError(ArgumentFault("optimizer", optimizer_label(options), expected))
    return made


def _needs_more(options: Options, why: str) -> ArgumentFault:
    return ArgumentFault(
        "optimizer", optimizer_label(options), f"{why}; expected an optimizer that needs gradients alone"
    )


def _told(options: Options, error: Exception) -> str:
    """What an error says: PyTorch's own words about its optimizers; of a user's own, the line of code, too."""
    if not isinstance(options.optimizer, str):
        return user_error(error)
    lines: Iterable[str] = str(error).splitlines()
    return one_line(next(iter(lines), "") or type(error).__name__)
