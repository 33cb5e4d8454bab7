"""Any optimizer with its schedule, clipping and accumulation, on any tree, equals one process with plain PyTorch."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import ExponentialLR, LambdaLR, LRScheduler, OneCycleLR, SequentialLR, StepLR

from palmette.runtime.options import Options
from tests.cost.small import instance, phase, source
from tests.runtime.test_equality import HIERARCHY, TREES, assert_equal, images, random_rig, three
from tests.thorough import mostly_thorough


class Restless(torch.optim.Optimizer):
    """An optimizer of a user's own, with numbers beside tensors in its state."""

    def __init__(self, params: Any, lr: float = 0.1, decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                state["step"] = state.get("step", 0) + 1
                state["rate"] = state.get("rate", 1.0) * (1 - group["decay"])
                weight.sub_(weight.grad, alpha=group["lr"] * state["rate"] / state["step"])


def stepped(optimizer: torch.optim.Optimizer) -> LRScheduler:
    return SequentialLR(optimizer, [StepLR(optimizer, 2, 0.5), ExponentialLR(optimizer, 0.9)], milestones=[5])


def fast(k: int) -> float:
    return 0.8**k


def slow(k: int) -> float:
    return 1 / (1 + k)


def by_group(optimizer: torch.optim.Optimizer) -> LRScheduler:
    return LambdaLR(optimizer, [fast, slow, fast])


CHOICES: dict[str, dict[str, Any]] = {
    "adamw": {"optimizer": "AdamW", "lr": 3e-3, "weight_decay": 0.1, "schedule": "cosine", "warmup": 3},
    "nesterov": {"optimizer": "sgd", "momentum": 0.8, "nesterov": True, "weight_decay": 0.01, "clip_norm": 0.05},
    "rmsprop": {"optimizer": "rmsprop", "lr": None, "momentum": 0.5, "optimizer_options": {"centered": True}},
    "nadam": {"optimizer": "nadam", "lr": 0.01, "accumulate": 3, "schedule": "linear"},
    "groups": {
        "optimizer": "adamw",
        "groups": {"*.bias": {"weight_decay": 0, "lr": 0.02}, "l1.*": {"weight_decay": 0.5}},
        "clip_norm": 0.1,
        "accumulate": 2,
        "schedule": "cosine",
    },
    "rates by group": {
        "optimizer": "adam",
        "groups": {"*.bias": {"lr": 0.02}, "l1.*": {"weight_decay": 0.5}},
        "schedule": by_group,
    },
    "factored": {"optimizer": "adafactor", "lr": 0.05, "clip_norm": 0.5},
    "adagrad": {"optimizer": "adagrad", "lr": None, "weight_decay": 0.01},
    "rprop": {"optimizer": "rprop", "lr": 0.001, "accumulate": 2},
    "asgd": {"optimizer": "asgd", "lr": 0.05, "optimizer_options": {"t0": 2.0}},
    "partial": {"optimizer": partial(torch.optim.AdamW, betas=(0.7, 0.9)), "lr": 0.01, "schedule": stepped},
    "own": {"optimizer": partial(Restless, decay=0.1), "lr": 0.1, "clip_norm": 0.2, "accumulate": 2},
    "one cycle": {"optimizer": "momentum", "schedule": partial(OneCycleLR, max_lr=0.1, total_steps=20)},
}


@pytest.mark.parametrize("name", CHOICES)
def test_any_choice_equals_one_process(name: str) -> None:
    rig = images()
    rig.options = Options(dtype="float64", seed=4, **CHOICES[name])
    assert_equal(rig, HIERARCHY, three(), iterations=12)


@pytest.mark.parametrize("tree", [TREES["back and forth"], TREES["replicas on one node"]], ids=["chain", "crowded"])
def test_clipping_counts_every_weight_once(tree: Any) -> None:
    rig = images(batch_norm=False)
    rig.options = Options(dtype="float64", lr=1.0, clip_norm=0.01)
    for meet in (None, "c"):
        assert_equal(rig, tree.model_copy(update={"meet": meet}), three(), iterations=3)


def drawn(seed: int) -> dict[str, Any]:
    """Options by chance."""
    draw = random.Random(seed)
    chosen = dict(draw.choice(list(CHOICES.values())))
    chosen |= {"clip_norm": draw.choice([None, 0.01, 0.3]), "accumulate": draw.randint(1, 3)}
    return chosen


def assert_drawn_equal(seed: int) -> None:
    rig, tree, known = random_rig(seed)
    own = drawn(seed)
    rig.options = Options(**{"dtype": "float64", "seed": rig.options.seed, "freeze": rig.options.freeze} | own)
    assert_equal(rig, tree, known, iterations=7)


@pytest.mark.parametrize("seed", range(500, 512))
def test_any_choice_on_any_tree_equals_one_process(seed: int) -> None:
    assert_drawn_equal(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", mostly_thorough(range(4), 1))
def test_any_choice_on_any_tree_equals_one_process_many_times(block: int) -> None:
    for seed in range(2000 + 50 * block, 2050 + 50 * block):
        assert_drawn_equal(seed)


def test_the_norm_is_exchanged_in_messages_of_one_number() -> None:
    rig = images()
    rig.options = replace(rig.options, clip_norm=1.0)
    tree = phase(source("a", 4, "1"), instance("1", 1, 3, "a", "2"), instance("2", 4, 5, "b"))
    found = [str(each) for program in rig.programs(tree, three()).values() for each in program.operations]
    assert sum("squares" in line for line in found) == 2  # sent and received
    assert sum("total norm" in line for line in found) == 2


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lower_precision_stays_near_full_precision(precision: Any) -> None:
    rig = images()
    rig.options = Options(lr=0.02, precision=precision)
    losses, _ = rig.trained(HIERARCHY, three(), iterations=6)
    expected, _ = rig.alone(HIERARCHY.batch, iterations=6)
    assert losses == pytest.approx(expected, rel=0.03)
    assert losses != pytest.approx(expected, rel=1e-7)


def test_the_loss_scale_does_not_change_what_is_learned() -> None:
    found = []
    for scale in (1024.0, 4096.0):
        rig = images()
        rig.options = Options(lr=0.02, precision="fp16", loss_scale=scale)
        found.append(rig.trained(HIERARCHY, three(), iterations=6)[0])
    assert found[0] == pytest.approx(found[1], rel=1e-3)
