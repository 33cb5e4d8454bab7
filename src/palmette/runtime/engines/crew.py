"""The workers of a run as the engine sees them, however they were started."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from palmette.errors import NodeLost, RunError, one_line
from palmette.runtime.worker.commands import Command, Event, Ready
from palmette.runtime.worker.setup import Setup

E = TypeVar("E")


START_PATIENCE_S = 120.0


# How long to wait for events before checking whether to stop.
LISTEN_S = 0.5


ALIVE_EVERY_S = 0.5


SILENCE_S = 3.5


LAST_WORDS_S = 2.0


OTHERS_WORDS_S = 0.3


ABSENCE_S = 1.5


class Crew(Protocol):
    """The workers of a run."""

    def send(self, node: str, command: Command) -> None:
        """Send a command to a worker."""
        ...

    def receive(self, timeout_s: float | None = None) -> tuple[str, Event] | None:
        """The next event of any worker; None after the timeout.

        Raises:
            NodeLost: a worker died, is frozen or disconnected; names it.
            RunError: a worker failed; names it.
        """
        ...

    def ask(self, commands: Mapping[str, Command], kind: type[E], timeout_s: float) -> dict[str, E]:
        """Send commands; returns the answers of the workers that still respond."""
        ...

    def close(self) -> None:
        """Stop all workers."""
        ...


class Stopped(Exception):
    """The run was stopped while waiting for workers."""


def never() -> bool:
    """Never stop."""
    return False


def one_from_each(
    crew: Crew, nodes: Mapping[str, object], kind: type[E], stopping: Callable[[], bool] = never
) -> dict[str, E]:
    """One event of this kind from every node.

    Raises:
        RunError: a worker is lost, or does not start.
        Stopped: ``stopping`` returns True before all have answered.
    """
    found: dict[str, E] = {}
    until_s = time.monotonic() + START_PATIENCE_S if kind is Ready else math.inf
    while len(found) < len(nodes):
        if stopping():
            raise Stopped
        heard = crew.receive(LISTEN_S)
        if heard is None:
            if time.monotonic() > until_s:
                missing = ", ".join(node for node in nodes if node not in found)
                raise RunError(f"node {missing}: its worker did not start within {START_PATIENCE_S:g} s")
            continue
        node, event = heard
        if not isinstance(event, kind):
            raise RunError(f"node {node}: its worker sent {type(event).__name__}; expected {kind.__name__}")
        found[node] = event
    return found


def unresponsive(node: str, seconds: float) -> NodeLost:
    """The error for a worker that has been silent too long."""
    return NodeLost(f"node {node}: its worker has been silent for {seconds:.1f} s; it is frozen or disconnected", node)


def pickled_setup(node: str, setup: Setup, dumps: Callable[[object], bytes] = pickle.dumps) -> bytes:
    """A setup, pickled for a worker.

    Raises:
        RunError: a layer cannot be pickled.
    """
    try:
        return dumps(setup)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        why = f"its layers cannot be sent to its worker: {one_line(str(error))}"
        raise RunError(f"node {node}: {why}; expected a module and a loss that can be pickled") from None
