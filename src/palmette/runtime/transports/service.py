"""A service that a transport needs beside the workers, such as a hub, on one of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

ProcessInitializer = Callable[[], None]


class Service(Protocol):
    """A service, before it is sent to the node that runs it."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        ...

    def serve(self, ready: Callable[[Any], None]) -> None:
        """Serve forever; ``ready`` is called once, with what others have to know."""
        ...


class RunningService(Protocol):
    """A running service; ``said`` is what it passed to ``ready``."""

    info: Any

    def close(self) -> None:
        """Stop it."""
        ...
