"""Which nodes are there, as far as an engine can tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Membership(Protocol):
    """Who is there of those whom a cluster names."""

    def lose(self, node: str) -> None:
        """Take a node for gone, until it comes anew or somebody says that it is back."""
        ...

    def welcome(self) -> None:
        """Take those for back that had been lost."""
        ...

    def there(self, nodes: Iterable[str]) -> set[str]:
        """Those of some nodes that are there."""
        ...


class Processes:
    """Nodes that are processes of this machine: all that were not lost can be started."""

    def __init__(self) -> None:
        self._lost: set[str] = set()

    def lose(self, node: str) -> None:
        """Take a node for gone."""
        self._lost.add(node)

    def welcome(self) -> None:
        """Take those for back that had been lost."""
        self._lost.clear()

    def there(self, nodes: Iterable[str]) -> set[str]:
        """All but the lost."""
        return set(nodes) - self._lost
