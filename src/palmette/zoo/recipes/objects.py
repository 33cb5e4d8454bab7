"""A recipe from what a Python program gives as objects: a module, a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import nn

from palmette.errors import ArgumentFault, InputError
from palmette.zoo.adapters import split_adapters
from palmette.zoo.networks.registry import network_entry
from palmette.zoo.recipes.loading import load_recipe, names_recipe
from palmette.zoo.recipes.recipe import Recipe

UserNetwork = str | nn.Module | Recipe | Callable[[], nn.Module]


def recipe_with(model: UserNetwork, data: Any) -> Recipe:
    """The recipe of a network, adapters in its name aside, and of data; a recipe, also by name, with other data.

    Raises:
        InputError: the name of the network cannot be imported, or it is something else.
    """
    if isinstance(model, str):
        model, _ = split_adapters(model)
        model = load_recipe(model) if ":" in model and names_recipe(model, "model") else model
    if isinstance(model, Recipe):
        return replace(model, data=data)
    if not isinstance(model, str | nn.Module) and not callable(model):
        raise InputError(ArgumentFault("model", type(model).__name__, "expected a torch.nn.Module, or its name"))
    return Recipe(model=model, data=data)


def recipe_from_objects(
    planned: str, recipe: object, model: nn.Module | Callable[[], nn.Module] | None, data: Any, usual: str
) -> tuple[str | Recipe | None, str | None]:
    """The recipe that a program asks for, if any, and the name of its data; ``planned`` is the plan's network.

    What is given as an object becomes part of a recipe; ``usual`` is the data of a module that comes alone.

    Raises:
        InputError: arguments do not go together, or the plan's network was an object and is missing.
    """
    if not isinstance(recipe, str | Recipe | None):
        expected = "expected a palmette.Recipe, or its name; a module is given as model"
        raise InputError(ArgumentFault("recipe", type(recipe).__name__, expected))
    if recipe is not None and model is not None:
        raise InputError(ArgumentFault("model", type(model).__name__, "the recipe has its own; expected one of both"))
    if model is not None:
        return recipe_with(model, usual if data is None else data), None
    if data is None or isinstance(data, str):
        return recipe, data
    return recipe_with(_known(planned) if recipe is None else recipe, data), None


def _known(planned: str) -> str:
    """The plan's network, if it can be had by its name."""
    if ":" not in planned:
        try:
            network_entry(planned.partition("?")[0])
        except InputError:
            expected = "the plan's network was an object; expected it again, as model or in a recipe"
            raise InputError(ArgumentFault("model", planned, expected)) from None
    return planned
