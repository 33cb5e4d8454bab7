# ruff: noqa: SLF001 (torch.nn.utils.parametrize has no public door to what it does to a module's class)
"""Modules whose weights are computed from others (weight norm, spectral norm), so that they can be sent to workers.

``torch.nn.utils.parametrize`` gives each of them a class of its own, made on the fly, which refuses to be pickled. Here
the class that the module had before is pickled with what the module holds, and is changed again where it arrives.
"""

from __future__ import annotations

import copyreg
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.utils import parametrize


def make_picklable(module: nn.Module) -> None:
    """Let the parts of a module that are parametrized be pickled."""
    for part in module.modules():
        if parametrize.is_parametrized(part):
            copyreg.pickle(type(part), _reduced)


def _reduced(module: nn.Module) -> tuple[Any, ...]:
    parametrized = module.parametrizations
    assert isinstance(parametrized, nn.ModuleDict)
    # Its hooks for loading are functions inside torch's own, which read names of older versions: not needed by workers.
    held = {**vars(module), "_load_state_dict_pre_hooks": OrderedDict()}
    return _rebuilt, (parametrize.type_before_parametrizations(module), held, tuple(parametrized))


def _rebuilt(kind: type[nn.Module], held: dict[str, Any], names: Sequence[str]) -> nn.Module:
    module = kind.__new__(kind)
    vars(module).update(held)
    parametrize._inject_new_class(module)
    for name in names:
        parametrize._inject_property(module, name)
    return module
