"""What the papers share: a record of figures and claims, and a callback for what is being worked on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Record: TypeAlias = dict[str, Any]
Progress: TypeAlias = Callable[[str], None]


def silent(_: str) -> None:
    """No progress output."""
