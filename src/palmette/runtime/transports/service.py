"""A service that a transport needs beside the workers, such as a hub, on one of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Entrance = Callable[[], None]


class Service(Protocol):
    """What is to be done; it can be sent to where it is done."""

    @property
    def name(self) -> str:
        """What it is called in messages."""
        ...

    def serve(self, ready: Callable[[Any], None]) -> None:
        """Do it for ever; ``ready`` is told what others have to know."""
        ...


class Served(Protocol):
    """A service that is ready; ``said`` is what it told."""

    said: Any

    def close(self) -> None:
        """End it."""
        ...
