"""What a network is called that is given as a name, a module or a recipe, with its adapters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from palmette.errors import ArgumentFault, InputError

if TYPE_CHECKING:
    from palmette.api.arguments import Model
    from palmette.zoo.adapters import Adapters


def adapters_of(model: Model, lora: str | Sequence[str] | None, rank: int | None) -> Adapters | None:
    """The adapters of a network, by its name or as they are given.

    Raises:
        InputError: they cannot be used, or the two differ.
    """
    from palmette.zoo.adapters import requested_adapters, same_adapters, split_adapters

    base, named = split_adapters(model) if isinstance(model, str) else ("", None)
    return same_adapters(named, requested_adapters(lora, rank), base)


def model_name(model: Model, adapters: Adapters | None) -> str:
    """What a network is called: by its name, or by what it is; with its adapters."""
    from palmette.zoo.adapters import split_adapters
    from palmette.zoo.models import UNNAMED
    from palmette.zoo.recipes.recipe import Recipe

    unnamed = UNNAMED if isinstance(model, Recipe) else type(model).__name__
    base = split_adapters(model)[0] if isinstance(model, str) else unnamed
    return base if adapters is None else adapters.named(base)


def name_for_hosts(model: Model, adapters: Adapters | None) -> str:
    """A network's name, by which other hosts find it.

    Raises:
        InputError: it has none.
    """
    if isinstance(model, str):
        return model_name(model, adapters)
    expected = "other hosts find a network by its name; expected one"
    raise InputError(ArgumentFault("model", type(model).__name__, expected))
