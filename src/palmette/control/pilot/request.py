"""What a user asks of a pilot, checked where it is defined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from palmette.control.pilot.grid import PilotGrid, PilotSetting, shorter_lengths
from palmette.control.run.callables import schedule_of
from palmette.control.run.request import CommonRequest, Request, to_record
from palmette.errors import ArgumentFault
from palmette.spec.cluster import Cluster
from palmette.spec.run import REAL
from palmette.zoo.recipes.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class PilotRequest(CommonRequest):
    """What a user asks of a pilot. Nothing is emulated: the loss does not depend on how fast nodes are.

    ``model`` is the name of the network or of its recipe; ``recipe`` is the training where that is an object.
    """

    model: str
    recipe: str | Recipe | None = None
    batch: int = 32
    epochs: int = 10
    grid: PilotGrid = field(default_factory=PilotGrid)
    testbed: str = REAL
    transport: str = ""
    hub: str | None = None

    def _faults(self) -> Iterator[ArgumentFault]:
        if self.batch < 1:
            yield ArgumentFault("batch", self.batch, "expected at least 1")
        if self.epochs < 2:
            yield ArgumentFault("epochs", self.epochs, "expected at least 2, so that the number of epochs varies")
        yield from super()._faults()

    def settings(self, cluster: Cluster) -> list[PilotSetting]:
        """Its runs: of several lengths where a schedule of the learning rate is stretched over each.

        Raises:
            InputError: the grid does not fit the cluster.
        """
        schedule = schedule_of(self.options.schedule, self.options.warmup)
        return self.grid.settings(cluster, shorter_lengths(self.epochs) if schedule.is_over_the_run else ())

    def run(self) -> Request:
        """The request of each of its runs, which never change their plan.

        Raises:
            InputError: there is no such transport.
        """
        return Request(
            recipe=self.recipe,
            data=self.data,
            epochs=self.epochs,
            engine=self.engine,
            testbed=self.testbed,
            transport=self.transport,
            keys=self.keys,
            hub=self.hub,
            listen=self.listen,
            insecure=self.insecure,
            input_shape=self.input_shape,
            replan=False,
            options=self.options,
        )

    def to_record(self) -> dict[str, Any]:
        """What all runs have in common, as JSON."""
        return {"model": self.model, "batch": self.batch, **to_record(self.run())}
