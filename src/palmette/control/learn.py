"""Points of a learning curve from runs: the loss after each epoch, the fraction of the data and the replicas in use."""

from __future__ import annotations

from pathlib import Path

from palmette.cost.estimate import evaluator
from palmette.errors import Fault, InputError
from palmette.predict.learning_curve import LossPoint
from palmette.report.run_files import MetricsRow, read_metrics
from palmette.spec.files import load
from palmette.spec.plan import Phase, inputs_of
from palmette.spec.run import RunRecord


def points_of(folder: Path) -> list[LossPoint]:
    """A point for each whole epoch of a run: the loss on held-out data where it was evaluated, else in training.

    Raises:
        InputError: there is no such run, it has several phases, or not one whole epoch.
    """
    record = load(RunRecord, folder / "run.json")
    if len(record.plan.phases) != 1:
        many = f"{len(record.plan.phases)} phases"
        raise InputError(Fault("phases", many, "expected one, with the same model throughout", str(folder)))
    (phase,) = record.plan.phases
    fraction, replicas = _fraction(record, phase), sum(1 for i in phase.instances if i.layers[0] == 1)
    losses = _losses(list(read_metrics(folder / "metrics.jsonl")))
    if not losses:
        raise InputError(Fault("metrics.jsonl", "no whole epoch", "expected a run of at least one", str(folder)))
    return [LossPoint(k, fraction, replicas, loss) for k, loss in enumerate(losses, 1)]


def _fraction(record: RunRecord, phase: Phase) -> float:
    """The fraction of all data that an epoch takes."""
    profile, cluster = inputs_of(record.plan, None, None)
    owned = [node.source.samples for node in cluster.nodes.values() if node.source is not None]
    return sum(evaluator(profile, cluster).epoch_samples(phase).values()) / sum(owned)


def _losses(lines: list[MetricsRow]) -> list[float]:
    """The loss of each whole epoch, in order."""
    training: dict[int, list[float]] = {}
    held_out: dict[int, float] = {}
    for line in lines:
        if line.epoch is None or line.loss is None:
            continue
        if line.evaluated:
            held_out[line.epoch] = line.loss
        else:
            training.setdefault(line.epoch, []).append(line.loss)
    whole = max((len(each) for each in training.values()), default=0)
    everywhere = all(epoch in held_out for epoch, each in training.items() if len(each) == whole)
    return [
        held_out[epoch] if everywhere else sum(each) / len(each)
        for epoch, each in sorted(training.items())
        if len(each) == whole
    ]
