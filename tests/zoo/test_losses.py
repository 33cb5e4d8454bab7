"""Losses of users, called so that they can be split over nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from palmette.errors import InputError
from palmette.zoo.recipes.loss import splittable

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
