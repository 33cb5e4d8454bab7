"""Losses of users, called so that they can be split over nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from palmette.control.run.request import training_options
from palmette.errors import InputError
from palmette.zoo.data.custom_source import fetched_pair
from palmette.zoo.recipes.loss import refuse_without_gradient, splittable
from palmette.zoo.recipes.recipe import Recipe
from palmette.zoo.user_code import located

OUTPUTS = {"logits": torch.arange(6.0).reshape(3, 2), "hidden": torch.zeros(3, 4)}
TARGETS = torch.tensor([0, 1, 1])


def by_attribute(outputs: Any, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(outputs.logits, targets, reduction="none")


def by_key(outputs: Any, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(outputs["logits"], targets, reduction="none")


def test_outputs_by_name_are_attributes_too() -> None:
    found, expected = (splittable(each, OUTPUTS, TARGETS, "own")(OUTPUTS, TARGETS) for each in (by_attribute, by_key))
    assert found.total == expected.total
    assert found.divisor == 3


def test_an_output_that_does_not_exist_is_named() -> None:
    with pytest.raises(InputError, match="no output 'logit'; the network returns logits, hidden"):
        splittable(lambda outputs, _: outputs.logit, OUTPUTS, TARGETS, "own")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "a batch counts 1, its parts 1 and 1; expected counts that add up"),
        (-3, "its count is -3; expected one number, 0 or more"),
        (float("inf"), "its count is inf; expected one number, 0 or more"),
        (torch.ones(2), "its count is 2 numbers; expected one number, 0 or more"),
        ("three", "it fails: "),
    ],
)
def test_counts_that_no_sum_can_be_divided_by_are_refused(count: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        splittable(lambda outputs, _: (outputs["logits"].sum(), count), OUTPUTS, TARGETS, "own")


def without_gradient(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.detach() - targets).square().mean(1)


def test_a_loss_from_which_nothing_is_learned_is_refused_with_the_line_of_its_definition() -> None:
    outputs, targets = torch.rand(3, 2), torch.rand(3, 2)
    made = splittable(without_gradient, outputs, targets, "mine")
    line = without_gradient.__code__.co_firstlineno
    expected = rf"no gradient flows back from it; .*test_losses\.py:{line}\)$"
    with pytest.raises(InputError, match=expected), located(without_gradient):
        refuse_without_gradient(made, outputs, targets)
    refuse_without_gradient(splittable(nn.MSELoss(), outputs, targets, "mine"), outputs, targets)


def test_what_a_recipe_says_wrongly_has_the_line_that_made_it() -> None:
    recipe = Recipe(model="lenet5", data="digits", optimizer="adamz")
    with pytest.raises(InputError, match=r"^recipe\.optimizer: adamz: no such optimizer.*test_losses\.py:\d+\)$"):
        training_options(recipe)


def test_arrays_of_numpy_are_taken_as_pytorchs_collate_takes_them() -> None:
    items = [(np.full(4, k, np.float32), np.int64(k)) for k in range(3)]
    inputs, label = fetched_pair(items, 2, "mine")
    assert torch.equal(inputs, torch.full((4,), 2.0))
    assert int(label) == 2
    with pytest.raises(InputError, match="fetching it failed"):
        fetched_pair([(np.array(["a"]), 1)], 0, "mine")
