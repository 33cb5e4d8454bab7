"""Optimizers and schedules of the user's own in ``run.json``: by name, so that a run can be resumed.

    a function or class      "package.module:name"
    a functools.partial      {"partial": "torch.optim.adamw:AdamW", "arguments": [], "options": {"eps": 1e-6}}

What has no such name is recorded as it prints; such a run can only be resumed by a program that gives it again.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from palmette.errors import Fault, InputError
from palmette.spec.learning_rate import LearningRateSchedule
from palmette.zoo.import_callable import import_callable

_LONGEST = 200
"""Characters of a schedule's name."""


def to_reference(given: Any) -> Any:
    """What ``run.json`` says of a name, a callable, or a partial of one."""
    if isinstance(given, str):
        return given
    if isinstance(given, partial) and _is_json(given.args, given.keywords):
        return {"partial": to_reference(given.func), "arguments": list(given.args), "options": given.keywords}
    name = getattr(given, "__qualname__", "")
    return f"{given.__module__}:{name}" if name.isidentifier() else {"object": repr(given)}


def schedule_of(given: Any, warmup: int) -> LearningRateSchedule:
    """A schedule of the learning rate, given as to a run or as ``to_reference`` has recorded it, by its name."""
    written = given if isinstance(given, dict) else to_reference(given)
    name = written if isinstance(written, str) else json.dumps(written, sort_keys=True)
    return LearningRateSchedule(name=name[:_LONGEST], warmup=warmup)


def from_reference(written: Any, field: str) -> Any:
    """What ``to_reference`` has recorded; names without a module are left as they are.

    Raises:
        InputError: there is no such callable, or it had no name.
    """
    if isinstance(written, str):
        return import_callable(written, field) if ":" in written else written
    if isinstance(written, dict) and {"partial", "arguments", "options"} <= written.keys():
        return partial(from_reference(written["partial"], field), *written["arguments"], **written["options"])
    expected = "has no name to find it by; expected a function or class of a module"
    raise InputError(Fault(field, written, expected))


def _is_json(*values: Any) -> bool:
    try:
        json.dumps(values)
    except (TypeError, ValueError):
        return False
    return True
