"""Which optimizers can be used, what they keep of a weight, and what is refused before a run starts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, ReduceLROnPlateau

from palmette.cost.optimizer import REFUSED, STATE_COPIES, OptimizerCost, known_optimizer
from palmette.errors import InputError
from palmette.runtime.optimizer_choice import named_classes, optimizer_cost, refuse_unfit_weights, state_copies
from palmette.runtime.options import Options
from palmette.runtime.schedule import rate_factor


def test_the_table_has_all_optimizers_of_pytorch_and_what_they_keep() -> None:
    classes = named_classes()
    assert set(STATE_COPIES) | set(REFUSED) == {*classes, "momentum"}
    for name, copies in STATE_COPIES.items():
        weight = nn.Parameter(torch.zeros(8, 8))
        weight.grad = torch.ones(8, 8)
        made: Any = partial(torch.optim.SGD, momentum=0.9) if name == "momentum" else classes[name]
        optimizer = made([weight])
        optimizer.step()
        assert state_copies(optimizer) == copies, name


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"optimizer": "AdamW"}, OptimizerCost("adamw", 2)),
        ({"optimizer": "sgd", "momentum": 0.9}, OptimizerCost("sgd", 1)),
        ({"optimizer": "adam", "optimizer_options": {"amsgrad": True}}, OptimizerCost("adam", 3)),
        (
            {"optimizer": "rmsprop", "momentum": 0.5, "optimizer_options": {"centered": True}},
            OptimizerCost("rmsprop", 3),
        ),
        ({"optimizer": partial(torch.optim.NAdam, lr=0.1)}, OptimizerCost("NAdam", 2)),
        ({"accumulate": 4, "clip_norm": 1.0}, OptimizerCost("sgd", 1, clips_norm=True, accumulate=4)),
    ],
)
def test_what_an_optimizer_keeps_is_priced_with_its_options(given: dict[str, Any], expected: OptimizerCost) -> None:
    assert optimizer_cost(Options(**given)) == expected


def no_optimizer(weights: Any) -> str:
    return f"{len(weights)} weights"


def plateau(optimizer: torch.optim.Optimizer) -> Any:
    return ReduceLROnPlateau(optimizer)


def broken(optimizer: torch.optim.Optimizer) -> Any:
    raise ValueError(f"not {len(optimizer.state)}\nnor tomorrow")


ALONE = "expected an optimizer that needs gradients alone"
SEVERAL = f"it computes the loss several times in a step; {ALONE}"
SPARSE = "RuntimeError: SparseAdam does not support dense gradients, please consider Adam instead"
LACKS = "adam has no such option; expected an optimizer that has"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"optimizer": "LBFGS"},
            f"optimizer: lbfgs: {SEVERAL}, such as adamw",
        ),
        (
            {"optimizer": "sparseadam"},
            f"sparseadam: it takes sparse gradients alone; {ALONE}, such as adamw",
        ),
        ({"optimizer": torch.optim.LBFGS}, f"optimizer: LBFGS: {SEVERAL}"),
        ({"optimizer": torch.optim.SparseAdam}, f"optimizer: SparseAdam: {SPARSE}; {ALONE}"),
        (
            {"optimizer": no_optimizer, "lr": None},
            "no_optimizer: returned str; expected a torch.optim.Optimizer",
        ),
        (
            {"optimizer": "adam", "momentum": 0.9},
            f"momentum: 0.9: {LACKS}",
        ),
        (
            {"optimizer": "adam", "nesterov": True},
            f"nesterov: True: {LACKS}",
        ),
        (
            {"optimizer": "adamw", "optimizer_options": {"beta": 1}},
            "optimizer_options: beta: no such option of adamw; did you mean betas?",
        ),
        (
            {"optimizer": "adamw", "groups": {"*.bias": {"weight_deca": 1}}},
            "groups: *.bias: weight_deca: no such option of adamw; did you mean weight_decay?",
        ),
        (
            {"optimizer": "adamw", "optimizer_options": {"betas": [2, 3]}},
            "optimizer: adamw: Invalid beta parameter at index 0: 2",
        ),
        ({"nesterov": True}, "optimizer: sgd: Nesterov momentum requires a momentum and zero dampening"),
        ({"schedule": plateau}, "schedule: plateau: needs a metric; expected an LRScheduler that needs none"),
        (
            {"schedule": broken},
            "schedule: broken: ValueError: not 0 (tests/runtime/test_optimizer_choice.py:",
        ),
        (
            {"schedule": no_optimizer},
            "no_optimizer: TypeError: object of type 'SGD' has no len() (tests/runtime/",
        ),
        ({"schedule": "cosin"}, "schedule: cosin: no such schedule; did you mean cosine?"),
        ({"warmup": -1}, "warmup: -1: expected a whole number, 0 or more"),
        ({"warmup": 2, "schedule": plateau}, "warmup: 2: a schedule of your own has its own warm-up; expected 0"),
        ({"weight_decay": -1}, "weight_decay: -1: expected a number, 0 or more"),
        ({"clip_norm": 0}, "clip_norm: 0: expected a number above 0"),
        ({"accumulate": 0}, "accumulate: 0: expected a whole number, 1 or more"),
        (
            {"early_stop": "los:3"},
            "early_stop: los:3: expected loss:3, accuracy:3, or NAME:3:max",
        ),
        ({"precision": "fp8"}, "precision: fp8: expected bf16 or fp16"),
        (
            {"precision": "fp16", "mixed_precision": True},
            "mixed_precision: True: is bf16; expected this or precision fp16",
        ),
        ({"optimizer_options": {"foreach": object}}, "expected numbers, words, and lists of them, by name"),
        ({"groups": {"*.bias": 0}}, "expected options by name for each pattern"),
        ({"optimizer": lambda weights: torch.optim.SGD(weights, 1)}, "cannot be sent to workers"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as refused:
        optimizer_cost(Options(**given))
    assert line in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_groups_match_weights_and_optimizers_take_them() -> None:
    weights = dict(nn.Linear(3, 2).named_parameters())
    refuse_unfit_weights(weights, Options(groups={"bia*": {"weight_decay": 0}}))
    with pytest.raises(InputError, match=r"groups: biass: no such weight; did you mean bias\?"):
        refuse_unfit_weights(weights, Options(groups={"biass": {"weight_decay": 0}}))
    with pytest.raises(InputError, match="optimizer: muon: Muon only supports 2D"):
        refuse_unfit_weights(weights, Options(optimizer="muon"))


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no such optimizer; did you mean rmsprop\?"):
        known_optimizer("rmsprob")


def test_cosine_is_that_of_pytorch() -> None:
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = CosineAnnealingLR(optimizer, 10)
    for k in range(10):
        assert rate_factor("cosine", k, 10) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()


def test_the_rate_rises_in_the_warm_up_and_falls_to_nothing_at_the_end() -> None:
    found = [rate_factor("linear", k, 12, warmup=4) for k in range(12)]
    assert found == [0.25, 0.5, 0.75, 1, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    assert rate_factor("cosine", 8, 12, warmup=4) == pytest.approx((1 + math.cos(math.pi / 2)) / 2)
