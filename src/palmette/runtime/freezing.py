"""What ``--freeze`` means: patterns that name layers or weights, and the weights that stay as they are by them."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

from palmette.errors import Fault, InputError, expected_name
from palmette.zoo.capture import Layer


def frozen(layers: Sequence[Layer], patterns: Iterable[str]) -> tuple[str, ...]:
    """The names of the weights that a pattern matches, by their own name or by that of their layer.

    Raises:
        InputError: a pattern matches nothing; names the nearest layer or weight.
    """
    named = [(layer.name, name) for layer in layers for name, _ in layer.module.named_parameters()]
    found: dict[str, None] = {}
    wrong = []
    for pattern in patterns:
        matched = [pair[1] for pair in named if any(fnmatch.fnmatchcase(name, pattern) for name in pair)]
        if not matched:
            known = list(dict.fromkeys([*(layer for layer, _ in named), *(name for _, name in named)]))
            wrong.append(Fault("--freeze", pattern, expected_name(pattern, "layer with weights", known)))
        found |= dict.fromkeys(matched)
    if wrong:
        raise InputError(wrong)
    return tuple(found)
