"""A recipe by its name, ``package.module:recipe``: the object itself, or what a function returns.

A worker finds the recipe by the same name on its own machine: no code travels.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from palmette.errors import ArgumentFault, InputError
from palmette.zoo.adapters import split_adapters
from palmette.zoo.import_callable import import_object
from palmette.zoo.recipes.recipe import Recipe
from palmette.zoo.user_code import user_error


@cache
def load_recipe(name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        InputError: it cannot be imported, or is no recipe.
    """
    try:
        found = import_object(name, "recipe", "recipe", Recipe)
    except InputError as error:
        raise InputError(ArgumentFault("recipe", fault.value, fault.expected) for fault in error.faults) from None
    if callable(found) and not isinstance(found, Recipe):
        found = _called(name, found)
    if not isinstance(found, Recipe):
        raise InputError(ArgumentFault("recipe", name, f"is a {type(found).__name__}; expected a palmette.Recipe"))
    return found


def recipe_name(model: str) -> str | None:
    """The name of a recipe, where a model's name is one, adapters aside; None where it names a network.

    Raises:
        InputError: it cannot be imported.
    """
    name, _ = split_adapters(model)
    return name if ":" in name and names_recipe(name, "model") else None


def names_recipe(name: str, field: str) -> bool:
    """Whether ``package.module:name``, given as ``field``, is a recipe, or a function that says that it returns one.

    Raises:
        InputError: it cannot be imported.
    """
    found = import_object(name, field)
    returns = getattr(found, "__annotations__", {}).get("return")
    return isinstance(found, Recipe) or returns is Recipe or str(returns).rpartition(".")[2] == "Recipe"


def _called(name: str, make: Any) -> Any:
    try:
        return make()
    except InputError:
        raise
    except Exception as error:
        raise InputError(ArgumentFault("recipe", name, f"calling it failed: {user_error(error)}")) from error
