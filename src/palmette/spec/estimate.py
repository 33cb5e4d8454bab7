"""The estimate: what the evaluator says a plan costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from palmette.spec.display import Displayed
from palmette.spec.document import Amount, Name, OpenDocument
from palmette.spec.goal import Spending
from palmette.spec.reading import size, spending
from palmette.spec.trace import Operation


class NodeEstimate(OpenDocument):
    """One node's part of an iteration; ``energy_j`` is None where its power is not known.

    So are ``cost`` where no node has a price, and ``carbon_g`` where its energy or its carbon intensity is not known.
    """

    busy_s: Amount
    energy_j: Amount | None
    sent_bytes: Amount
    received_bytes: Amount
    peak_memory_bytes: Amount
    cost: Amount | None = None
    carbon_g: Amount | None = None


Part = Literal["iteration", "first_epoch", "epoch", "total"]


class Estimate(Displayed, OpenDocument):
    """The price of a plan: of its first phase's iteration, and of the whole where the epochs are known.

    ``iteration_s`` and ``epoch_s`` are steady: of an epoch in which samples that are kept have arrived. Those of the
    first epoch stand beside them. ``…_bytes`` are all that nodes send each other, ``epoch_iterations`` how many an
    epoch has, ``epoch_batches`` how many batches of the plan's size its samples make: fewer where trees train apart.
    ``…_cost`` is money in ``currency``, ``…_carbon_g`` grams of carbon dioxide; None where they are not known.
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
    epoch_batches: Amount | None = None
    first_epoch_s: Amount | None = None
    first_epoch_j: Amount | None = None
    first_epoch_bytes: Amount | None = None
    epochs: Amount | None = None
    total_s: Amount | None = None
    total_j: Amount | None = None
    total_bytes: Amount | None = None
    changes_s: Amount | None = None
    changes_j: Amount | None = None
    currency: str | None = None
    iteration_cost: Amount | None = None
    epoch_cost: Amount | None = None
    first_epoch_cost: Amount | None = None
    total_cost: Amount | None = None
    iteration_carbon_g: Amount | None = None
    epoch_carbon_g: Amount | None = None
    first_epoch_carbon_g: Amount | None = None
    total_carbon_g: Amount | None = None
    frozen_bytes: Amount | None = None
    saved_bytes: Amount | None = None
    energy_source: str | None = None
    warnings: tuple[str, ...] = ()
    nodes: dict[Name, NodeEstimate] | None = None
    timeline: tuple[Operation, ...] | None = None

    def spending(self, part: Part) -> Spending | None:
        """What a part of the training takes; None where not even its time is known."""
        time_s = getattr(self, f"{part}_s")
        if time_s is None:
            return None
        return Spending(time_s, *(getattr(self, f"{part}_{what}") for what in ("j", "cost", "carbon_g")))

    def _text(self, part: Part) -> str:
        """What a part takes, as people read it."""
        spent = self.spending(part)
        assert spent is not None, "only parts whose time is known are shown"
        return spending(spent, self.currency)

    def facts(self) -> dict[str, str]:
        """What is spent in an iteration, of epochs, and of the whole where it is known."""
        return dict(self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "an iteration", self._text("iteration")
        differs = self.first_epoch_s is not None and self.first_epoch_s != self.epoch_s
        if differs:
            yield "the first epoch", self._text("first_epoch")
        if self.epoch_s is not None:
            yield "a later epoch" if differs else "an epoch", self._text("epoch")
        if self.total_s is not None and self.epochs is not None:
            sent = "" if self.total_bytes is None else f", {size(self.total_bytes)} sent"
            yield f"{self.epochs:g} epoch{'' if self.epochs == 1 else 's'}", f"{self._text('total')}{sent}"
        if self.frozen_bytes is not None and self.saved_bytes is not None:
            yield "frozen", f"{size(self.frozen_bytes)} of weights, {size(self.saved_bytes)} less to send in an epoch"

    def __repr__(self) -> str:
        return f"Estimate({'; '.join(f'{name}: {value}' for name, value in self._facts())})"
