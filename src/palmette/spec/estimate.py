"""The estimate: what the evaluator says a plan costs."""

from __future__ import annotations

from palmette.spec.document import Amount, Name, OpenDocument
from palmette.spec.trace import Operation


class NodeEstimate(OpenDocument):
    """One node's part of an iteration; ``energy_j`` is None where its power is not known."""

    busy_s: Amount
    energy_j: Amount | None
    sent_bytes: Amount
    received_bytes: Amount
    peak_memory_bytes: Amount


class Estimate(OpenDocument):
    """The price of a plan: of its first phase's iteration, and of the whole where the epochs are known.

    ``changes_s`` and ``changes_j`` are the parts of the whole that passing the model from phase to phase takes.
    ``warnings`` say what a user should know before running the plan: what its price does not tell.
    """

    iteration_s: Amount
    iteration_j: Amount | None = None
    epoch_s: Amount | None = None
    epoch_j: Amount | None = None
    epochs: Amount | None = None
    total_s: Amount | None = None
    total_j: Amount | None = None
    changes_s: Amount | None = None
    changes_j: Amount | None = None
    energy_source: str | None = None
    warnings: tuple[str, ...] = ()
    nodes: dict[Name, NodeEstimate] | None = None
    timeline: tuple[Operation, ...] | None = None
