"""The estimate: what the evaluator says a plan costs."""

from __future__ import annotations

from collections.abc import Iterator

from palmette.spec.display import Displayed
from palmette.spec.document import Amount, Name, OpenDocument
from palmette.spec.reading import energy, size, time
from palmette.spec.trace import Operation


class NodeEstimate(OpenDocument):
    """One node's part of an iteration; ``energy_j`` is None where its power is not known."""

    busy_s: Amount
    energy_j: Amount | None
    sent_bytes: Amount
    received_bytes: Amount
    peak_memory_bytes: Amount


class Estimate(Displayed, OpenDocument):
    """The price of a plan: of its first phase's iteration, and of the whole where the epochs are known.

    ``iteration_s`` and ``epoch_s`` are steady: of an epoch in which samples that are kept have arrived. Those of the
    first epoch stand beside them. ``…_bytes`` are all that nodes send each other, ``epoch_iterations`` how many an
    epoch has.
    ``changes_s`` and ``changes_j`` are the parts of the whole that passing the model from phase to phase takes.
    ``frozen_bytes`` are those of weights that are not trained, ``saved_bytes`` what nodes send each other less in an
    epoch because of that; both None where all are trained.
    ``warnings`` say what a user should know before running the plan: what its price does not tell.
    """

    iteration_s: Amount
    iteration_j: Amount | None = None
    first_iteration_s: Amount | None = None
    epoch_s: Amount | None = None
    epoch_j: Amount | None = None
    epoch_bytes: Amount | None = None
    epoch_iterations: Amount | None = None
    first_epoch_s: Amount | None = None
    first_epoch_j: Amount | None = None
    first_epoch_bytes: Amount | None = None
    epochs: Amount | None = None
    total_s: Amount | None = None
    total_j: Amount | None = None
    total_bytes: Amount | None = None
    changes_s: Amount | None = None
    changes_j: Amount | None = None
    frozen_bytes: Amount | None = None
    saved_bytes: Amount | None = None
    energy_source: str | None = None
    warnings: tuple[str, ...] = ()
    nodes: dict[Name, NodeEstimate] | None = None
    timeline: tuple[Operation, ...] | None = None

    def facts(self) -> dict[str, str]:
        """Time and energy of an iteration, of epochs, and of the whole where it is known."""
        return dict(self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "an iteration", f"{time(self.iteration_s)}, {energy(self.iteration_j)}"
        differs = self.first_epoch_s is not None and self.first_epoch_s != self.epoch_s
        if differs:
            yield "the first epoch", f"{time(self.first_epoch_s)}, {energy(self.first_epoch_j)}"
        if self.epoch_s is not None:
            yield "a later epoch" if differs else "an epoch", f"{time(self.epoch_s)}, {energy(self.epoch_j)}"
        if self.total_s is not None and self.epochs is not None:
            sent = "" if self.total_bytes is None else f", {size(self.total_bytes)} sent"
            yield f"{self.epochs:g} epochs", f"{time(self.total_s)}, {energy(self.total_j)}{sent}"
        if self.frozen_bytes is not None and self.saved_bytes is not None:
            yield "frozen", f"{size(self.frozen_bytes)} of weights, {size(self.saved_bytes)} less to send in an epoch"

    def __repr__(self) -> str:
        return f"Estimate({'; '.join(f'{name}: {value}' for name, value in self._facts())})"
