"""Dispatches the steps of trees, and collects each when all nodes of its tree have done it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from palmette.runtime.engines.crew import Crew
from palmette.runtime.phase_programs import PhasePart
from palmette.runtime.record.operations import OperationRecord
from palmette.runtime.worker.commands import Execute, IterationDone


@dataclass
class TreeStep:
    """A step of a part, and the reports of its nodes."""

    part: int
    number: int
    done: dict[str, IterationDone] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """The sum of the losses of its roots."""
        return sum(event.loss for event in self.done.values())

    @property
    def records(self) -> dict[str, list[OperationRecord]]:
        """The operations of each node."""
        return {node: event.records for node, event in self.done.items()}


class StepDispatcher:
    """Dispatches steps to the nodes of each part.

    All nodes of a tree finish a step before any starts the next, as on the event clock: so a tree on several nodes gets
    one at a time. A tree on a single node may get many.
    """

    def __init__(self, crew: Crew, parts: Sequence[PhasePart]) -> None:
        self._crew, self._nodes = crew, [list(part.programs) for part in parts]
        self._going: dict[tuple[int, int], TreeStep] = {}
        self.given_s: dict[int, float] = {}

    def give(self, part: int, first: int, last: int) -> None:
        """Let the nodes of a part run steps ``first`` to ``last``."""
        self.given_s[part] = time.monotonic()
        for node in self._nodes[part]:
            self._crew.send(node, Execute(part, first, last))

    def alone(self, part: int) -> bool:
        """Whether a part runs on a single node."""
        return len(self._nodes[part]) == 1

    def next(self, timeout_s: float) -> TreeStep | None:
        """The next step that all nodes of its part have done; None if no event arrives within the timeout.

        Raises:
            RunError: a worker is lost.
        """
        while (heard := self._crew.receive(timeout_s)) is not None:
            node, event = heard
            assert isinstance(event, IterationDone), f"{node} sent {event!r}; expected Done"
            key = (event.program, event.iteration)
            step = self._going.setdefault(key, TreeStep(*key))
            step.done[node] = event
            if len(step.done) == len(self._nodes[event.program]):
                return self._going.pop(key)
        return None
