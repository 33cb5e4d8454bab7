"""What training minimises: a loss, the format of the labels that it needs, and what else is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from palmette.errors import Fault, InputError
from palmette.zoo.capture import LayerChain
from palmette.zoo.capture.wrapper import describe_error
from palmette.zoo.data.base import DataSet, LabelTree, data_error
from palmette.zoo.data.item_format import ItemFormat, class_format, item_format
from palmette.zoo.models import Network
from palmette.zoo.recipes.loading import load_recipe
from palmette.zoo.recipes.loss import (
    ClassificationLoss,
    LossFunction,
    LossTotal,
    SplittableLoss,
    refuse_without_gradient,
    splittable,
    takes_classes,
)
from palmette.zoo.recipes.recipe import Recipe, UserLoss
from palmette.zoo.user_code import located


@dataclass(frozen=True)
class TrainingObjective:
    """A loss of outputs and labels, and metrics by their names; it goes to the workers, so it is picklable."""

    loss: LossFunction
    labels: ItemFormat
    metrics: Mapping[str, SplittableLoss] = field(default_factory=dict)

    def total(self, outputs: Any, labels: LabelTree) -> LossTotal:
        """Sum and divisor of the loss of some samples."""
        return self.loss(outputs, like_outputs(labels, outputs))

    def to(self, device: torch.device, dtype: torch.dtype) -> TrainingObjective:
        """The objective with numbers of its own on a device and in a dtype."""
        metrics = {name: each.to(device, dtype) for name, each in self.metrics.items()}
        return replace(self, loss=self.loss.to(device, dtype), metrics=metrics)


def like_outputs(labels: LabelTree, outputs: Any) -> LabelTree:
    """Labels whose floating-point numbers have the dtype of the network's output, as those of one process would."""
    floats = [each.dtype for each in pytree.tree_leaves(outputs) if each.is_floating_point()]
    if labels is None or not floats:
        return labels
    return pytree.tree_map(lambda each: each.to(floats[0]) if each.is_floating_point() else each, labels)


def classification(classes: int) -> TrainingObjective:
    """Cross-entropy of class numbers."""
    return TrainingObjective(ClassificationLoss(), class_format(classes))


def objective_for(recipe: Recipe | None, name: str, network: Network, data: DataSet) -> TrainingObjective:
    """What training a network on data minimises: the recipe's loss, or cross-entropy.

    ``name`` is the recipe's, if workers can find it by that.

    Raises:
        InputError: the loss does not fit outputs and labels, or cannot be split over nodes.
    """
    first = data.train.labels(range(min(2, len(data.train))))
    is_class = isinstance(first, Tensor) and first.dim() == 1 and first.dtype == torch.int64
    if recipe is None or recipe.loss is None:
        if not is_class:
            expected = "its targets are no class numbers; expected a recipe with a loss for them"
            with located(None, "" if recipe is None else recipe.made_at):
                raise data_error(data.name, expected)
        return classification(network.classes)
    outputs, labels = _tried(network, data)
    form = class_format(network.classes) if is_class and takes_classes(recipe.loss) else item_format(labels)
    tried, named = partial(_tried_loss, recipe.made_at, outputs=outputs, targets=labels), ":" in name
    made = tried(recipe.loss, name=name, find=partial(recipe_loss, name) if named else None)
    with located(recipe.loss, recipe.made_at):
        refuse_without_gradient(made, outputs, labels)
    metrics = {
        key: tried(each, name=f"{name}.metrics.{key}", find=partial(recipe_metric, name, key) if named else None)
        for key, each in recipe.metrics.items()
    }
    return TrainingObjective(made, form, metrics)


def _tried_loss(made_at: str, loss: UserLoss, **options: Any) -> SplittableLoss:
    with located(loss, made_at):
        return splittable(loss, **options)


def recipe_loss(name: str) -> UserLoss:
    """The loss of a recipe that has one."""
    loss = load_recipe(name).loss
    assert loss is not None
    return loss


def recipe_metric(name: str, key: str) -> UserLoss:
    """A metric of a recipe."""
    return load_recipe(name).metrics[key]


def _tried(network: Network, data: DataSet) -> tuple[Any, LabelTree]:
    """What the network makes of a few samples, in evaluation, and their labels."""
    inputs, labels = data.train.batch(range(min(3, len(data.train))))
    whole = LayerChain(layer.module for layer in network.layers)
    weights = next((each.dtype for each in whole.parameters() if each.is_floating_point()), torch.float32)
    training = whole.training
    try:
        with torch.no_grad():
            outputs = whole.eval()(*network.cast(inputs, weights))
    except Exception as error:  # a user's module may raise anything, some in a dtype that it was not cut in
        expected = f"it fails on its own data in {str(weights).removeprefix('torch.')}: {describe_error(error)}"
        raise InputError(Fault("model", network.name, expected)) from error
    whole.train(training)
    return outputs, like_outputs(labels, outputs)
