"""Every strategy by its name.

A file directly in ``plan``, a file of ``plan/rivals`` or a family's ``strategy.py`` adds strategies by naming them in
``STRATEGIES``.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from types import ModuleType

from palmette.errors import Fault, InputError, expected_name
from palmette.plan.core.strategy import Strategy


@cache
def strategies() -> dict[str, type[Strategy]]:
    """Every strategy by its name."""
    kinds = [_with_traits(kind) for module in _modules() for kind in getattr(module, "STRATEGIES", ())]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


def find(name: str) -> type[Strategy]:
    """The strategy of this name.

    Raises:
        InputError: there is none; names the nearest.
    """
    if name not in strategies():
        raise InputError(Fault("strategy", name, expected_name(name, "strategy", list(strategies()))))
    return strategies()[name]


def _with_traits(kind: type[Strategy]) -> type[Strategy]:
    """The class itself; one that does not inherit from the Protocol gets the defaults of the traits that it lacks."""
    for trait, default in vars(Strategy).items():
        if isinstance(default, bool) and not trait.startswith("_") and not hasattr(kind, trait):
            setattr(kind, trait, default)
    return kind


def _modules() -> list[ModuleType]:
    plan = importlib.import_module("palmette.plan")
    found = [_imported(plan, name) for name in _names(plan) if name != "core"]
    families = [module for module in found if hasattr(module, "__path__")]
    return found + [_imported(family, name) for family in families for name in _strategy_files(family)]


def _strategy_files(family: ModuleType) -> list[str]:
    names = _names(family)
    return ["strategy"] if "strategy" in names else names


def _names(package: ModuleType) -> list[str]:
    return [found.name for found in pkgutil.iter_modules(package.__path__)]


def _imported(package: ModuleType, name: str) -> ModuleType:
    return importlib.import_module(f"{package.__name__}.{name}")
