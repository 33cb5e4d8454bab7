"""Which training a run is: that of a recipe, or a network with data and cross-entropy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palmette.control.run.request import Request
from palmette.errors import ArgumentFault, InputError
from palmette.runtime.options import Options
from palmette.zoo.adapters import requested_adapters, split_adapters
from palmette.zoo.data import recipe_data
from palmette.zoo.models import UNNAMED, load_network
from palmette.zoo.recipes.loading import load_recipe, recipe_name
from palmette.zoo.recipes.objective import TrainingObjective, objective_for
from palmette.zoo.recipes.recipe import Recipe


class RequestedTraining(NamedTuple):
    """The recipe, if there is one, and what it is called; network and data by name, or in the recipe."""

    recipe: Recipe | None
    name: str
    model: str | Recipe
    data: str | None


def find_training(model: str, request: Request) -> RequestedTraining:
    """The training that a user asks for; ``model`` is the plan's.

    Raises:
        InputError: there is no such recipe, or it was an object that is gone.
    """
    asked = request.recipe
    if isinstance(asked, Recipe):
        return RequestedTraining(asked, UNNAMED, asked, request.data or UNNAMED)
    if asked == UNNAMED:
        expected = "the recipe was an object of the program that started the run; expected one with a name"
        raise InputError(ArgumentFault("recipe", asked, expected))
    name = asked or recipe_name(model)
    if name is None:
        return RequestedTraining(None, model, model, request.data)
    recipe = load_recipe(name)
    return RequestedTraining(recipe, name, name, request.data or name)


def requested_recipe(model: str, asked: str | Recipe | None) -> Recipe | None:
    """The recipe that a user asks for, else the one that a plan's model names; None where there is none.

    Raises:
        InputError: there is no such recipe.
    """
    if isinstance(asked, Recipe):
        return asked
    name = asked or recipe_name(model)
    return None if name is None else load_recipe(name)


def divisor_varies(found: str | Recipe) -> bool:
    """Whether what the loss of a recipe is divided by varies from batch to batch, so that several roots exchange it.

    Raises:
        InputError: the recipe cannot be loaded, or its loss does not fit its network and data.
    """
    name = UNNAMED if isinstance(found, Recipe) else found
    recipe = found if isinstance(found, Recipe) else requested_recipe(found, None)
    if recipe is None or recipe.loss is None:
        return False
    network = load_network(found)
    data = recipe_data(recipe, name, network.input_shape)
    return objective_for(recipe, name, network, data).loss.per_sample is None


def refuse_other_adapters(model: str, lora: str | Sequence[str] | None, rank: int | None) -> None:
    """Refuse adapters that are given for a run but are not those of the plan's network, ``model``.

    Raises:
        InputError: says which the plan has.
    """
    asked, (_, planned) = requested_adapters(lora, rank), split_adapters(model)
    if asked is not None and asked != planned:
        has = f"has those of {planned.named('')[1:]}" if planned else "has none"
        expected = f"the plan's network {has}; expected those of the plan, or a plan that was made with these"
        raise InputError(ArgumentFault("lora", f"{','.join(asked.targets)} of rank {asked.rank}", expected))


def refuse_metric(options: Options, objective: TrainingObjective) -> None:
    """Refuse to stop early by a metric that the training does not have.

    Raises:
        InputError: says so.
    """
    known = ["loss", *(["accuracy"] if objective.labels.classes is not None else []), *objective.metrics]
    rules = {
        "early_stop": (options.early_stopping, options.early_stop, "a patience"),
        "stop_at": (options.stopping_at, options.stop_at, "a value"),
    }
    wrong = [
        ArgumentFault(
            name, given, f"there is no metric {rule.metric} here; expected one of {', '.join(known)} and {number}"
        )
        for name, (rule, given, number) in rules.items()
        if rule is not None and rule.metric not in known
    ]
    if wrong:
        raise InputError(wrong)
