"""What an optimizer adds to the price of a plan: the state that it keeps of each weight, and small exchanges.

The names are those of the classes of ``torch.optim`` in lower case; ``momentum`` is SGD with a momentum of 0.9. The
table is written down because nothing here may import torch; a test compares it with torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from palmette.errors import ArgumentFault, InputError, expected_name

STATE_COPIES: dict[str, int] = {
    "sgd": 0,
    "momentum": 1,
    "adam": 2,
    "adamw": 2,
    "adadelta": 2,
    "adafactor": 0,  # sums of rows and columns alone
    "adagrad": 1,
    "adamax": 2,
    "asgd": 1,
    "muon": 1,
    "nadam": 2,
    "radam": 2,
    "rmsprop": 1,
    "rprop": 2,
}
"""By optimizer with its default options, how many numbers it keeps for each weight."""
REFUSED = {"lbfgs": "it computes the loss several times in a step", "sparseadam": "it takes sparse gradients alone"}
"""Optimizers of PyTorch that need something else than one gradient of each weight."""


@dataclass(frozen=True)
class OptimizerCost:
    """An optimizer and its loss as the evaluator sees them: numbers kept for each weight, and what nodes exchange.

    To clip gradients by their norm over the whole network, the nodes of a phase exchange parts of it under ``step``;
    so do roots where the divisor of the loss varies from batch to batch. The gradients of ``accumulate`` iterations
    are exchanged once.
    """

    name: str = "sgd"
    state_copies: int = 0
    clips_norm: bool = False
    divisor_varies: bool = False
    accumulate: int = 1


PLAIN_SGD = OptimizerCost()


def known_optimizer(given: str | OptimizerCost) -> OptimizerCost:
    """The optimizer of this name.

    Raises:
        InputError: there is none, or none that needs gradients alone; names the nearest.
    """
    if isinstance(given, OptimizerCost):
        return given
    name = given.lower()
    if name in STATE_COPIES:
        return OptimizerCost(name, STATE_COPIES[name])
    expected = expected_name(given, "optimizer", list(STATE_COPIES))
    if name in REFUSED:
        expected = f"{REFUSED[name]}; expected an optimizer that needs gradients alone, such as adamw"
    raise InputError(ArgumentFault("optimizer", given, expected))


def accumulating(given: str | OptimizerCost, many: int | None) -> str | OptimizerCost:
    """The optimizer with gradients that accumulate over so many iterations, for which a node keeps their sum.

    None: as it is.

    Raises:
        InputError: there is no such optimizer, or that is no number of iterations.
    """
    if many is None:
        return given
    if many < 1:
        raise InputError(ArgumentFault("accumulate", many, "expected 1 iteration or more"))
    known = known_optimizer(given)
    plain = known.state_copies - int(known.accumulate > 1)
    return replace(known, state_copies=plain + int(many > 1), accumulate=many)


def recorded_name(optimizer: OptimizerCost) -> str:
    """The name by which an optimizer is found again; of a user's own, that of one that keeps as much of each weight."""
    if optimizer.name.lower() in STATE_COPIES:
        return optimizer.name.lower()
    return next((name for name, copies in STATE_COPIES.items() if copies >= optimizer.state_copies), "adam")
