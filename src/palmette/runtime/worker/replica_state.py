"""The optimizer state of replicas that train apart, and of the outer optimizer, in one dictionary by name and key.

l1.weight/momentum_buffer        the first replica's: what others begin with that have none of their own
l1.weight/momentum_buffer@B      that of instance B
l1.weight/momentum_buffer@       the outer optimizer's
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from torch import Tensor

_MARK = "@"
OUTER = ""
"""Stands in place of an instance."""


def marked(state: Mapping[str, Tensor], instance: str) -> dict[str, Tensor]:
    """A state, marked as that of an instance."""
    return {f"{name}{_MARK}{quote(instance, safe='')}": value for name, value in state.items()}


def unmarked(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of the first replica."""
    return {name: value for name, value in state.items() if _MARK not in name.rpartition("/")[2]}


def marked_for(state: Mapping[str, Tensor], instance: str) -> dict[str, Tensor]:
    """What was marked as that of an instance."""
    end = f"{_MARK}{quote(instance, safe='')}"
    return {name.removesuffix(end): value for name, value in state.items() if name.endswith(end)}


def handed_over(state: Mapping[str, Tensor], *, outer: bool) -> dict[str, Tensor]:
    """What another phase goes on with: the first replica's state and, if it has ``outer``, the outer optimizer's."""
    return unmarked(state) | (marked(marked_for(state, OUTER), OUTER) if outer else {})


def state_for(state: Mapping[str, Tensor], instance: str) -> dict[str, Tensor]:
    """What an instance begins with: for each weight its own state, else the first replica's."""
    own = marked_for(state, instance)
    known = {name.rpartition("/")[0] for name in own}
    return own | {name: value for name, value in unmarked(state).items() if name.rpartition("/")[0] not in known}
